"""Gateways are told where the others answer, so that files and batches are found where they are kept."""

import pytest

from apps.common.actors import SYSTEM
from apps.deployments.models import Replica, ReplicaState
from apps.fleet.services.nodes import join_node
from apps.routing.services.routes import create_route
from apps.routing.services.snapshots import compile_snapshot
from tests.factories.domain import NOW, make_deployment, make_replica, make_version
from workers.contracts.snapshot import GatewayAddress

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def test_the_snapshot_has_the_address_of_every_node_that_told_it():
    told, _ = join_node(actor=SYSTEM, name="told", gateway_url="http://10.0.0.1:8080", now=NOW)
    join_node(actor=SYSTEM, name="silent", now=NOW)
    gateways = compile_snapshot(generation=1, pools=[], now=NOW).gateways
    assert gateways == [GatewayAddress(node_id=str(told.pk), url="http://10.0.0.1:8080")]


def test_a_snapshot_names_the_nodes_that_run_a_version_once_there_is_a_second_gateway():
    version = make_version()
    create_route(actor=SYSTEM, public_name="demo-chat", weights={version.pk: 1}, now=NOW)
    one, _ = join_node(actor=SYSTEM, name="one", gateway_url="http://10.0.0.1:8080", now=NOW)
    replica = make_replica(make_deployment(version), node=one, port=8001, state=ReplicaState.READY)
    assert nodes_of(version) == []
    join_node(actor=SYSTEM, name="two", gateway_url="http://10.0.0.2:8080", now=NOW)
    assert nodes_of(version) == [str(one.pk)]
    Replica.objects.filter(pk=replica.pk).update(state=ReplicaState.SLEEPING)
    assert nodes_of(version) == []


def test_several_gateways_share_a_secret_that_stays_and_a_single_one_has_none():
    join_node(actor=SYSTEM, name="one", gateway_url="http://10.0.0.1:8080", now=NOW)
    assert compile_snapshot(generation=1, pools=[], now=NOW).peer_secret == ""
    join_node(actor=SYSTEM, name="two", gateway_url="http://10.0.0.2:8080", now=NOW)
    secret = compile_snapshot(generation=2, pools=[], now=NOW).peer_secret
    join_node(actor=SYSTEM, name="three", gateway_url="http://10.0.0.3:8080", now=NOW)
    assert len(secret) == 64
    assert compile_snapshot(generation=3, pools=[], now=NOW).peer_secret == secret


def nodes_of(version):
    snapshot = compile_snapshot(generation=1, pools=[], now=NOW)
    return next(each for each in snapshot.versions if each.version_id == str(version.pk)).node_ids
