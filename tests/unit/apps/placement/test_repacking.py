import pytest

from apps.placement.policies.demand import Stage
from apps.placement.policies.fleet import Occupant
from apps.placement.policies.repacking import Running, propose_moves
from tests.support.fleets import box, demand, seeded

pytestmark = pytest.mark.unit


def running(wanted, number, *keys):
    return Running(demand=wanted, stages=(Stage(node_id=box(number).node_id, keys=keys),))


def occupying(wanted, *keys):
    shape = wanted.shape
    return Occupant(
        replica_id=wanted.replica_id,
        deployment_id=wanted.deployment_id,
        keys=keys,
        bytes_each=shape.memory_bytes,
        is_exclusive=shape.is_exclusive,
    )


def shares(*numbers, **facts):
    return [demand(i, deployment=i, gib=20, is_exclusive=False, strategy="pack", **facts) for i in numbers]


def proposed(nodes, running_ones):
    return propose_moves(nodes, running_ones, rounds=200, random=seeded(1))


def test_two_half_empty_gpus_become_one():
    one, two = shares(1, 2)
    nodes = [box(1, count=1, occupants=(occupying(one, "0"),)), box(2, count=1, occupants=(occupying(two, "0"),))]
    found = proposed(nodes, [running(one, 1, "0"), running(two, 2, "0")])
    assert len(found.moves) == 1
    assert (found.used_before, found.used_after) == (2, 1)
    assert found.saved_usd_per_h == pytest.approx(4.5 * 1.05 - 1.0)


def test_a_move_that_does_not_pay_for_itself_is_not_proposed():
    one, two = shares(1, 2)
    nodes = [box(i, "L4", count=1, occupants=(occupying(each, "0"),)) for i, each in ((1, one), (2, two))]
    assert proposed(nodes, [running(one, 1, "0"), running(two, 2, "0")]).moves == ()


def test_a_move_says_what_it_must_fetch():
    one, two = shares(1, 2, weights_key="w", weights_gib=30)
    nodes = [
        box(1, count=1, occupants=(occupying(one, "0"),), cached=frozenset({"w"})),
        box(2, count=1, occupants=(occupying(two, "0"),)),
    ]
    found = proposed(nodes, [running(one, 1, "0"), running(two, 2, "0")])
    assert [(move.replica_id, move.fetch_bytes) for move in found.moves] == [(two.replica_id, 0)]


def test_who_is_not_said_to_be_movable_stays():
    one, two = shares(1, 2)
    nodes = [box(1, count=1, occupants=(occupying(one, "0"),)), box(2, count=1, occupants=(occupying(two, "0"),))]
    found = proposed(nodes, [running(one, 1, "0")])
    assert [move.replica_id for move in found.moves] == [one.replica_id]


def test_nobody_stays_beside_one_that_it_must_be_apart_from():
    one, two = (demand(i, gib=20, is_exclusive=False, strategy="pack", apart="node") for i in (1, 2))
    nodes = [
        box(1, "H100", count=1, occupants=(occupying(one, "0"),)),
        box(2, "A100-80", count=1, occupants=(occupying(two, "0"),)),
    ]
    assert proposed(nodes, [running(one, 1, "0"), running(two, 2, "0")]).moves == ()
