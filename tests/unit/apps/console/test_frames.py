import pytest

from apps.console.policies.frames import (
    figure,
    history_of,
    node_values,
    overview_values,
    replica_values,
    smoothed,
    trailing_means,
)
from apps.console.policies.states import level_of
from apps.telemetry.policies import NodeFrame, Overview, SeriesPoint
from workers.contracts.telemetry import GatewayReport, NodeTelemetry, ReplicaReport

pytestmark = pytest.mark.unit

NOW_S = 1_800_000_000.0


def overview(**values):
    shown = Overview(at=NOW_S, nodes_reporting=1, nodes_stale=0, **values)
    return overview_values(shown, node_count=2, class_names=["gold", "batch"], ttft_slo_ms=500)


def frame(age_s=0.0):
    telemetry = NodeTelemetry(
        node_id="n1",
        boot_id="b",
        sequence=1,
        sampled_at=NOW_S,
        desired_generation=1,
        snapshot_generation=1,
        replicas=[ReplicaReport(replica_id="r1", state="ready"), ReplicaReport(replica_id="r2", state="starting")],
        gateway=GatewayReport(gateway_id="g", boot_id="b", active_generation=7, running_requests=3, queued_requests=2),
    )
    return NodeFrame(received_at=NOW_S - age_s, telemetry=telemetry)


def test_what_is_not_known_is_a_dash_with_its_reason_never_zero():
    assert figure(None, "ms", "no first token in the last 60 s") == {
        "text": "–",
        "title": "no first token in the last 60 s",
    }
    assert figure(0, "ms")["text"] == "0"


def test_an_overview_without_telemetry_shows_no_zero():
    values = overview()
    assert [values[name]["text"] for name in ("requests_per_s", "tokens_per_s", "queued", "ttft_p95")] == ["–"] * 4
    assert values["queued_context"]["text"] == "by class: unknown"


def test_the_queue_is_listed_by_class_in_the_order_of_service():
    assert overview(queued_requests=3, queued_by_class={"batch": 3})["queued_context"]["text"] == "gold 0 · batch 3"


def test_tokens_count_both_ways():
    values = overview(input_tokens_per_s=100.0, output_tokens_per_s=20.0)
    assert (values["tokens_per_s"]["text"], values["tokens_per_s"]["unit"]) == ("120", "tok/s")


def test_a_node_that_went_quiet_keeps_its_figures_greyed():
    fresh = node_values(node_id="n1", state="online", frame=frame(), now_s=NOW_S)
    quiet = node_values(node_id="n1", state="online", frame=frame(age_s=20), now_s=NOW_S)
    assert fresh["node.n1.running"] == {"text": "3", "unit": "", "title": "", "is_stale": False}
    assert quiet["node.n1.running"]["is_stale"]
    assert quiet["node.n1.age"]["text"] == "20 s ago"
    assert fresh["node.n1.engines"]["text"] == "1 of 2"


def test_a_node_never_heard_of_has_no_figures():
    values = node_values(node_id="n1", state="joining", frame=None, now_s=NOW_S)
    assert values["node.n1.running"]["text"] == "–"
    assert values["node.n1.state"]["state"] == "warning"


def test_an_engine_that_reports_no_kv_use_is_not_empty():
    report = ReplicaReport(replica_id="r1", state="ready", running_requests=0)
    values = replica_values(replica_id="r1", state="ready", detail="", report=report, is_old=False)
    assert (values["replica.r1.running"]["text"], values["replica.r1.kv"]["text"]) == ("0", "–")


def test_what_two_processes_tell_of_one_second_adds_up_in_the_history():
    one = [SeriesPoint(at=10.2, running_requests=3, ttft_ms_p95=100.0), SeriesPoint(at=11.2, running_requests=5)]
    two = [SeriesPoint(at=10.9, running_requests=4, ttft_ms_p95=300.0)]
    history = history_of([*one, *two])
    assert history["at"] == [10, 11]
    assert history["series"]["running_requests"] == [7, 5]
    assert history["series"]["ttft_ms_p95"] == [300.0, None]


@pytest.mark.parametrize(
    ("word", "level"),
    [("ready", "ok"), ("draining", "warning"), ("failed", "breach"), ("unknown", "unknown"), ("?", "unknown")],
)
def test_a_word_nobody_knows_is_unknown(word, level):
    assert level_of(word) == level


def test_a_rate_is_the_mean_of_the_last_ten_seconds_and_a_gap_stays_a_gap():
    assert trailing_means([10.0] + [0.0] * 10) == [10.0, 5.0, 10 / 3, 2.5, 2.0, 10 / 6, 10 / 7, 1.25, 10 / 9, 1.0, 0.0]
    assert trailing_means([2.0, None, 4.0]) == [2.0, None, 3.0]


def test_an_unknown_rate_is_not_made_known_by_older_ones():
    recent = history_of([SeriesPoint(at=10.0, requests_per_s=2.0), SeriesPoint(at=11.0, requests_per_s=4.0)])
    unknown, known = (Overview(at=NOW_S, nodes_reporting=1, nodes_stale=0, requests_per_s=rate) for rate in (None, 4.0))
    assert smoothed(unknown, recent).requests_per_s is None
    assert smoothed(known, recent).requests_per_s == 3.0
    assert smoothed(known, history_of([])).requests_per_s == 4.0
