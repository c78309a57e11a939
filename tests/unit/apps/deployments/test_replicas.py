from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.deployments.policies.replicas import ReplicaView, plan_replicas, spec_hash

pytestmark = pytest.mark.unit


def view(number, state="ready", *, is_draining=False, has_node=True):
    return ReplicaView(replica_id=UUID(int=number), state=state, is_draining=is_draining, has_node=has_node)


def ids(*numbers):
    return [UUID(int=number) for number in numbers]


def test_missing_replicas_are_created():
    assert plan_replicas(wanted=3, replicas=[view(1)]).create_count == 2


def test_as_many_as_wanted_needs_nothing():
    plan = plan_replicas(wanted=2, replicas=[view(1), view(2)])
    assert (plan.create_count, plan.drain, plan.remove) == (0, [], [])


def test_of_too_many_the_youngest_ready_one_drains():
    assert plan_replicas(wanted=1, replicas=[view(1), view(2)]).drain == ids(2)


def test_one_that_serves_outlives_one_that_does_not():
    assert plan_replicas(wanted=1, replicas=[view(1, "failed"), view(2)]).drain == ids(1)


def test_one_that_was_never_placed_goes_without_draining():
    plan = plan_replicas(wanted=0, replicas=[view(1, "pending", has_node=False)])
    assert (plan.drain, plan.remove) == ([], ids(1))


def test_a_draining_one_stays_until_its_engine_has_stopped():
    draining, stopped = view(1, "draining", is_draining=True), view(2, "stopped", is_draining=True)
    assert plan_replicas(wanted=0, replicas=[draining, stopped]).remove == ids(2)


def test_a_draining_one_does_not_count():
    assert plan_replicas(wanted=1, replicas=[view(1, is_draining=True)]).create_count == 1


STATES = st.sampled_from(["pending", "starting", "ready", "failed", "stopped", "unknown"])


@given(wanted=st.integers(0, 8), facts=st.lists(st.tuples(STATES, st.booleans(), st.booleans()), max_size=8))
def test_afterwards_exactly_the_wanted_number_is_active(wanted, facts):
    replicas = [
        view(number, state, is_draining=is_draining, has_node=has_node)
        for number, (state, is_draining, has_node) in enumerate(facts)
    ]
    plan = plan_replicas(wanted=wanted, replicas=replicas)
    gone = {*plan.drain, *plan.remove}
    active = [replica for replica in replicas if not replica.is_draining and replica.replica_id not in gone]
    assert len(active) + plan.create_count == wanted
    assert not set(plan.drain) & set(plan.remove)


def test_a_spec_hash_changes_with_any_part_and_not_with_their_order():
    assert spec_hash({"a": 1, "b": 2}) == spec_hash({"b": 2, "a": 1})
    assert spec_hash({"a": 1, "b": 2}) != spec_hash({"a": 1, "b": 3})


def test_one_on_a_lost_node_is_replaced_but_neither_drained_nor_forgotten():
    lost = ReplicaView(replica_id=UUID(int=1), state="unknown", is_draining=False, has_node=True, is_lost=True)
    plan = plan_replicas(wanted=1, replicas=[lost])
    assert (plan.create_count, plan.drain, plan.remove) == (1, [], [])
    assert plan_replicas(wanted=1, replicas=[lost, view(2)]).drain == []


def test_a_node_that_is_back_has_its_replicas_again_and_the_one_that_waits_for_a_place_goes():
    plan = plan_replicas(wanted=1, replicas=[view(1), view(2, "pending", has_node=False)])
    assert (plan.drain, plan.remove) == ([], ids(2))
