"""A controller whose clock was set, or is not its machine's, leads for a while."""

from datetime import timedelta

import msgspec
import pytest

from apps.deployments.models import NodeDesired, Replica, ReplicaState
from apps.fleet.models import Node
from apps.fleet.services.nodes import mark_lost_nodes, mark_silent_nodes, record_seen
from apps.placement.services.loop import reconcile
from tests.factories.domain import NOW, make_deployment, make_node, make_version
from workers.contracts.desired import DesiredState

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def wanted():
    bodies = NodeDesired.objects.order_by("node_id").values_list("body", flat=True)
    return [msgspec.json.decode(body, type=DesiredState).replicas for body in bodies]


def turn(holder, at):
    mark_silent_nodes(now=at)
    mark_lost_nodes(now=at)
    reconcile(holder=holder, now=at)


@pytest.mark.parametrize("shift_s", [90, 3600, -3600, -86_400])
def test_it_stops_nothing_moves_nothing_and_loses_no_node(shift_s):
    nodes = [make_node(f"n{number}") for number in range(3)]
    make_deployment(make_version(), replica_count=6)
    turn("right", NOW)
    Replica.objects.update(state=ReplicaState.READY)
    before = wanted()
    for second in range(1, 4):
        turn("wrong", NOW + timedelta(seconds=shift_s + second))
        assert wanted() == before
        record_seen(node_ids=[node.pk for node in nodes], now=NOW + timedelta(seconds=second))
    turn("right", NOW + timedelta(seconds=4))
    assert wanted() == before
    assert not Node.objects.filter(is_lost=True).exists()
    assert set(Node.objects.values_list("state", flat=True)) == {"online"}


def test_under_it_what_is_asked_for_is_done_all_the_same():
    make_node("n1")
    deployment = make_deployment(make_version())
    turn("right", NOW)
    deployment.replica_count = 2
    deployment.save()
    turn("wrong", NOW - timedelta(days=1))
    assert [len(specs) for specs in wanted()] == [2]
