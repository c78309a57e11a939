"""Gateways are told where the others answer, so that files and batches are found where they are kept."""

import pytest

from apps.common.actors import SYSTEM
from apps.fleet.services.nodes import join_node
from apps.routing.services.snapshots import compile_snapshot
from tests.factories.domain import NOW
from workers.contracts.snapshot import GatewayAddress

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def test_the_snapshot_has_the_address_of_every_node_that_told_it():
    told, _ = join_node(actor=SYSTEM, name="told", gateway_url="http://10.0.0.1:8080", now=NOW)
    join_node(actor=SYSTEM, name="silent", now=NOW)
    gateways = compile_snapshot(generation=1, pools=[], now=NOW).gateways
    assert gateways == [GatewayAddress(node_id=str(told.pk), url="http://10.0.0.1:8080")]
