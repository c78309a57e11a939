import asyncio

import msgspec
import pytest

from deploy.local.readiness import GivenUpError, offers_every_engine
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


def test_who_waits_for_an_engine_that_was_given_up_is_told_what_it_ended_of(tmp_path):
    crashes = {"a": {"restarts": 8, "given_up_hash": "h", "problem": "ended with status 1: no such model"}}
    (tmp_path / "crashes.json").write_bytes(msgspec.json.encode(crashes))
    with pytest.raises(GivenUpError, match=r"it ended with status 1: no such model\nIts log is .*engine-a\.log"):
        offered(tmp_path, wanted=["a", "b"], ready=["b"])
    assert offered(tmp_path, wanted=["a"], ready=["a"])


def test_one_that_crashed_and_is_tried_again_is_waited_for(tmp_path):
    (tmp_path / "crashes.json").write_bytes(msgspec.json.encode({"a": {"restarts": 1, "crashes_in_a_row": 1}}))
    assert not offered(tmp_path, wanted=["a"], ready=[])


def test_it_is_not_ready_before_the_agent_has_written_anything(tmp_path):
    assert not asyncio.run(offers_every_engine(tmp_path)())
