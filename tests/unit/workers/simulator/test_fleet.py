import pytest

from tests.support.specs import replica_spec
from workers.contracts.desired import DesiredState, ReplicaPart
from workers.simulator.fleet import report_replicas

pytestmark = pytest.mark.unit


def states(first_seen, now, *specs):
    desired = DesiredState(node_id="n", generation=1, fence=1, replicas=list(specs))
    return [(report.replica_id, report.state) for report in report_replicas(desired, first_seen, now)]


def test_a_replica_is_ready_some_seconds_after_it_was_asked_for():
    seen = {}
    one = replica_spec(replica_id="a")
    assert states(seen, 10.0, one) == [("a", "starting")]
    assert states(seen, 14.0, one) == [("a", "ready")]


def test_a_part_waits_for_the_others_as_an_agent_s_does():
    part = ReplicaPart(rank=0, count=2, run=0, host="a", master_host="a", master_port=1)
    desired = DesiredState(node_id="n", generation=1, fence=1, replicas=[replica_spec(part=part)])
    waiting = report_replicas(desired, {}, 100.0)[0]
    assert (waiting.state, waiting.is_prepared) == ("placed", True)


def test_a_draining_one_has_stopped_and_one_that_is_gone_is_forgotten():
    seen = {"a": 0.0, "b": 0.0}
    assert states(seen, 10.0, replica_spec(replica_id="a", is_draining=True)) == [("a", "stopped")]
    assert list(seen) == ["a"]


def test_before_the_first_desired_state_there_is_nothing_to_tell():
    assert report_replicas(None, {}, 0.0) == []
