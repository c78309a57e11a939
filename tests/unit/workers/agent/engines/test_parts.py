"""A node's part of an engine that is on several, told as stories of that node."""

import pytest
from msgspec import structs

from tests.support.node_world import World
from tests.support.specs import replica_spec
from workers.agent.engines.memory import ActionKind
from workers.agent.engines.offers import LoadTimes, coming_endpoints, offered_endpoints
from workers.contracts.desired import ReplicaPart

pytestmark = pytest.mark.unit

START, STOP, KILL, FORGET = ActionKind.START, ActionKind.STOP, ActionKind.KILL, ActionKind.FORGET
PART = ReplicaPart(rank=1, count=2, run=0, host="n2", master_host="n1", master_port=20_000, may_start=True)


def spec(part=PART, **changes):
    return replica_spec(replica_id="one", spec_hash=f"run-{part.run}", part=part, **changes)


def run(number, rank=1, **changes):
    return structs.replace(PART, run=number, rank=rank, **changes)


def world(one):
    node = World()
    node.want(one)
    return node


def running(one):
    node = world(one)
    node.turn(5)
    assert node.states() == {"one": "ready"}
    return node


def test_a_part_waits_for_the_others_and_says_that_it_is_prepared():
    node = world(spec(run(0, may_start=False)))
    assert node.turn(3) == []
    report = node.reports["one"]
    assert (report.state, report.is_prepared) == ("placed", True)
    node.want(spec())
    assert node.turn() == [START]


def test_a_follower_runs_without_probes_trials_or_requests():
    node = running(spec())
    assert node.actions == []
    assert node.engines["one"].trials == 0
    assert node.reports["one"].follows
    assert offered_endpoints(node.reports.values(), node.views(), lambda _: True) == []
    coming = coming_endpoints(
        node.reports.values(), node.views(), lambda _: True, LoadTimes(), now=node.now, unix_time=0.0
    )
    assert coming == []


def test_a_leader_is_ready_once_it_has_answered_a_real_request():
    node = running(spec(run(0, rank=0)))
    assert node.engines["one"].trials > 0
    assert len(offered_endpoints(node.reports.values(), node.views(), lambda _: True)) == 1


@pytest.mark.parametrize("rank", [0, 1])
def test_a_part_that_has_ended_is_not_started_again_in_the_same_run_by_no_agent(rank):
    node = running(spec(run(0, rank=rank)))
    node.engines["one"].is_alive = False
    assert node.turn() == [KILL]
    assert (node.states(), node.reports["one"].has_given_up) == ({"one": "failed"}, False)
    assert node.turn(30) == []
    node.restart()
    node.turn(30)
    assert node.states() == {"one": "failed"}


def test_the_next_run_begins_with_what_is_left_of_the_one_before_gone():
    node = running(spec())
    node.engines["one"].is_alive = False
    node.turn()
    node.want(spec(run(1, may_start=False)))
    assert node.turn() == [FORGET]
    assert node.turn() == []
    assert node.reports["one"].is_prepared
    node.want(spec(run(1)))
    assert node.turn() == [START]
    assert node.reports["one"].restarts == 1


def test_a_leader_of_a_broken_run_does_not_wait_for_what_it_has():
    node = running(spec(run(0, rank=0)))
    node.engines["one"].running_requests = 3
    node.want(spec(run(1, rank=0, is_broken=True, may_start=False)))
    assert node.turn() == [STOP]


def test_a_leader_that_is_restarted_or_drained_finishes_what_it_has():
    for wanted in (spec(run(1, rank=0)), structs.replace(spec(run(0, rank=0)), is_draining=True)):
        node = running(spec(run(0, rank=0)))
        node.engines["one"].running_requests = 3
        node.want(wanted)
        assert node.turn(20) == []
        assert node.states() == {"one": "draining"}
        node.engines["one"].running_requests = 0
        node.turn(2)
        assert "TERM" in node.engines["one"].signals if "one" in node.engines else True


def test_a_follower_that_drains_ends_at_once():
    node = running(spec())
    node.want(structs.replace(spec(), is_draining=True))
    assert node.turn() == [STOP]
    node.turn(3)
    assert node.states() == {"one": "stopped"}


def test_a_follower_holds_up_nobody_who_starts_on_the_same_gpu():
    node = running(structs.replace(spec(), accelerators=["0"]))
    other = replica_spec(replica_id="two", port=9001, spec_hash="two", accelerators=["0"])
    node.want(structs.replace(spec(), accelerators=["0"]), other)
    assert node.turn() == [START]
