from datetime import UTC, datetime, timedelta

import pytest

from apps.console.policies.verdict import Condition, DeploymentCondition, NodeCondition, judge

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def node(**changes):
    well = {
        "node_id": "n1",
        "name": "yard-1",
        "state": "online",
        "last_seen_at": NOW,
        "is_fresh": True,
        "active_generation": 7,
        "gateway_error": "",
    }
    return NodeCondition(**well | changes)


def deployment(**changes):
    well = {
        "deployment_id": "d1",
        "name": "demo-chat-v1",
        "wanted": 2,
        "ready": 2,
        "failed_detail": "",
        "is_starting": True,
        "public_names": [],
        "changed_at": None,
    }
    return DeploymentCondition(**well | changes)


def condition(**changes):
    well = {
        "now": NOW,
        "nodes": [node()],
        "deployments": [deployment()],
        "generation": 7,
        "ttft_ms_p95": 300.0,
        "ttft_slo_ms": 500,
        "ttft_slo_name": "gold",
        "failures_per_s": 0.0,
        "unsent_records": 0,
    }
    return Condition(**well | changes)


def texts(**changes):
    return [problem.text for problem in judge(condition(**changes)).problems]


def test_nothing_wrong_is_said_in_so_many_words():
    verdict = judge(condition())
    assert (verdict.state, verdict.title, verdict.problems) == ("ok", "All is well", [])


def test_a_silent_node_is_a_breach_and_says_since_when():
    silent = node(state="offline", last_seen_at=NOW - timedelta(minutes=3), is_fresh=False)
    verdict = judge(condition(nodes=[silent]))
    assert verdict.state == "breach"
    assert verdict.problems[0].text == "Node yard-1 is silent, last heard 3 min ago; what it runs is unknown"
    assert verdict.problems[0].about == "node.n1"


def test_missing_telemetry_is_unknown_not_healthy():
    assert judge(condition(nodes=[node(is_fresh=False)])).state == "unknown"


def test_figures_that_are_unknown_raise_no_alarm_of_their_own():
    assert texts(ttft_ms_p95=None, failures_per_s=None, unsent_records=None) == []


def test_a_gateway_behind_the_newest_snapshot_is_named():
    assert texts(nodes=[node(active_generation=6)]) == ["The gateway of yard-1 still serves generation 6 of 7"]


def test_a_refused_snapshot_says_why_and_not_also_that_it_is_old():
    refused = node(active_generation=6, gateway_error="the signature is not the control plane's")
    assert len(texts(nodes=[refused])) == 1
    assert "the signature is not" in texts(nodes=[refused])[0]


def test_a_replica_that_starts_is_a_warning_until_it_takes_too_long():
    starting = deployment(ready=1, changed_at=NOW - timedelta(minutes=1))
    stuck = deployment(ready=1, changed_at=NOW - timedelta(minutes=11))
    assert judge(condition(deployments=[starting])).state == "warning"
    assert judge(condition(deployments=[stuck])).state == "breach"


def test_a_failed_replica_says_how_many_are_left_and_why():
    failed = deployment(ready=1, failed_detail="out of memory", is_starting=False, changed_at=NOW - timedelta(hours=2))
    assert texts(deployments=[failed]) == ["demo-chat-v1: 1 of 2 replicas ready since 2 h: out of memory"]


def test_a_replica_that_is_missing_says_for_whom():
    missing = deployment(ready=1, public_names=["demo-chat"])
    assert texts(deployments=[missing]) == ["demo-chat-v1: 1 of 2 replicas ready, for those who ask for demo-chat"]


def test_a_missed_slo_says_whose():
    assert texts(ttft_ms_p95=812.0) == ["p95 TTFT is 812 ms, last 60 s, over the 500 ms that gold tenants are promised"]


def test_the_worst_comes_first():
    verdict = judge(condition(nodes=[node(active_generation=6), node(state="offline", is_fresh=False)]))
    assert [problem.level for problem in verdict.problems] == ["breach", "warning"]
    assert verdict.title == "2 things need attention"


def test_an_empty_fleet_is_said_first_of_all():
    assert texts(nodes=[], deployments=[]) == ["No node has joined yet, so nothing can be served"]


def test_a_list_of_problems_says_since_when_and_who_notices():
    since = NOW - timedelta(minutes=5)
    found = deployment(ready=1, public_names=["demo-chat"], changed_at=since)
    (problem,) = judge(condition(deployments=[found])).problems
    assert (problem.since, problem.whom) == (since, "those who ask for demo-chat")
    (silent,) = judge(condition(nodes=[node(state="offline", last_seen_at=since)])).problems
    assert (silent.since, silent.whom) == (since, "")
