"""A joined node's gateway: started by the agent, started again when it dies, and serving on without its agent."""

import asyncio
import os
import signal
from itertools import pairwise

import msgspec
import pytest

from tests.integration.agent.test_agent import desired, environment_of, node, snapshot
from tests.integration.agent.test_agent_process import agent
from tests.support.control_plane import control_plane, eventually
from tests.support.fake_engines import free_port
from tests.support.raw_http import call
from tests.support.specs import replica_spec
from workers.agent.engines.identity import ProcessIdentity, identify, is_running, kill_group
from workers.agent.gateway_keeper import PID_FILE, GatewayKeeper, GatewayPlace

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]
__all__ = ["node"]


@pytest.fixture
def place(node):
    """Whatever gateway still runs there at the end is killed."""
    yield {"TOKENYARD_AGENT_GATEWAY_HOST": "127.0.0.1", "TOKENYARD_GATEWAY_PORT": str(free_port())} | {
        "TOKENYARD_GATEWAY_ADMIN_PORT": str(free_port())
    }
    if identity := identity_in(node):
        kill_group(identity)


def identity_in(node):
    try:
        return msgspec.json.decode((node / PID_FILE).read_bytes(), type=ProcessIdentity)
    except FileNotFoundError:
        return None


def serves(plane):
    return plane.latest is not None and plane.latest.gateway is not None and plane.latest.gateway.active_generation == 3


async def test_the_agent_brings_up_the_gateway_and_again_when_it_dies(node, place):
    async with control_plane() as plane:
        plane.snapshot = snapshot(3)
        with agent(node, plane, **place):
            await eventually(lambda: serves(plane), timeout_s=60)
            before, boot_id = identity_in(node), plane.latest.gateway.boot_id
            os.kill(before.pid, signal.SIGKILL)
            await eventually(lambda: identity_in(node) != before and is_running(identity_in(node)), timeout_s=30)
            await eventually(lambda: serves(plane) and plane.latest.gateway.boot_id != boot_id, timeout_s=60)
        answer = await call(int(place["TOKENYARD_GATEWAY_PORT"]), "GET", "/v1/models")
        assert answer.status == 401
        held = identity_in(node)
        plane.telemetry.clear()
        with agent(node, plane, **place):
            await eventually(lambda: serves(plane), timeout_s=60)
            assert identity_in(node) == held
        assert b"TOKENYARD_AGENT_TOKEN" not in environment_of(held.pid)


async def test_a_node_that_was_removed_serves_no_more_and_its_agent_starts_nothing_again(node, place):
    one = replica_spec(port=free_port())
    async with control_plane() as plane:
        plane.snapshot, plane.desired = snapshot(3), desired(one)
        with agent(node, plane, **place):
            await eventually(lambda: serves(plane) and plane.latest.replicas[0].state == "ready", timeout_s=60)
            gateway, engine = identity_in(node), identify(plane.latest.replicas[0].pid)
            await plane.remove_the_node()
            await eventually(lambda: not is_running(gateway) and not is_running(engine), timeout_s=60)
        with agent(node, plane, **place):
            await asyncio.sleep(3)
            assert (identity_in(node), list(node.glob("engine-*.pid"))) == (gateway, [])


async def test_the_gateway_has_as_many_processes_as_the_agent_was_told(node, place):
    async with control_plane() as plane:
        plane.snapshot = snapshot(3)
        with agent(node, plane, **place, TOKENYARD_GATEWAY_PROCESSES="2"):
            await eventually(lambda: serves(plane), timeout_s=60)
            health = await call(int(place["TOKENYARD_GATEWAY_ADMIN_PORT"]), "GET", "/healthz")
            assert health.json()["processes"] == 2
            assert health.json()["boot_id"] == plane.latest.gateway.boot_id


async def test_an_agent_of_newer_code_hands_over_to_a_gateway_of_the_same_without_a_refused_connection(node, place):
    port = int(place["TOKENYARD_GATEWAY_PORT"])
    async with control_plane() as plane:
        plane.snapshot = snapshot(3)
        with agent(node, plane, **place):
            await eventually(lambda: serves(plane), timeout_s=60)
        old, boot_id = identity_in(node), plane.latest.gateway.boot_id
        (node / PID_FILE).write_bytes(msgspec.json.encode(msgspec.to_builtins(old) | {"release": "older"}))
        plane.telemetry.clear()
        with agent(node, plane, **place):
            statuses = set()
            while not (serves(plane) and plane.latest.gateway.boot_id != boot_id):
                statuses.add((await call(port, "GET", "/v1/models")).status)
            await eventually(lambda: not is_running(old), timeout_s=60)
            statuses.add((await call(port, "GET", "/v1/models")).status)
        assert statuses == {401}


def test_one_that_reports_nothing_for_long_is_ended_and_one_that_cannot_start_is_tried_ever_later(
    tmp_path, monkeypatch
):
    place = GatewayPlace(host="127.0.0.1", port=free_port(), admin_port=free_port())
    keeper = GatewayKeeper(tmp_path, "n", place, dict(os.environ), has_reported=lambda: False, release="r1")
    keeper._command = ["sleep", "60"]
    keeper.turn(0.0)
    first = identity_in(tmp_path)
    for second in range(1, 30):
        keeper.turn(float(second))
    keeper.turn(630.0)  # a pause of the machine counts against nobody
    assert is_running(first)
    keeper.turn(632.0)
    keeper._child.wait(10)
    keeper._command = ["false"]
    started = []
    for second in range(640, 700):
        before = keeper._attempts.started_at
        keeper.turn(float(second))
        keeper._child.wait(10)
        if keeper._attempts.started_at != before:
            started.append(second)
    assert [later - earlier for earlier, later in pairwise(started)][:5] == [1, 1, 2, 4, 8]
