import asyncio

import msgspec
import pytest

from deploy.local.readiness import offers_every_engine
from tests.support.specs import replica_spec
from workers.contracts.desired import DesiredState
from workers.contracts.endpoints import Endpoint, EndpointList

pytestmark = pytest.mark.unit


def offered(node, *, wanted, ready):
    replicas = [replica_spec(replica_id=name) for name in wanted]
    desired = DesiredState(node_id="n", generation=1, fence=1, replicas=replicas)
    endpoints = [Endpoint(endpoint_id=name, version_id="v", base_url="http://x") for name in ready]
    (node / "desired.json").write_bytes(msgspec.json.encode(desired))
    (node / "endpoints.json").write_bytes(msgspec.json.encode(EndpointList(node_id="n", endpoints=endpoints)))
    return asyncio.run(offers_every_engine(node)())


def test_a_node_is_ready_when_every_wanted_engine_is_offered(tmp_path):
    assert offered(tmp_path, wanted=["a", "b"], ready=["b", "a"])


@pytest.mark.parametrize(("wanted", "ready"), [(["a", "b"], ["a"]), (["a"], []), ([], []), (["a"], ["b"])])
def test_it_is_not_ready_while_one_is_missing(tmp_path, wanted, ready):
    assert not offered(tmp_path, wanted=wanted, ready=ready)


def test_it_is_not_ready_before_the_agent_has_written_anything(tmp_path):
    assert not asyncio.run(offers_every_engine(tmp_path)())
