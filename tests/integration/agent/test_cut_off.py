"""A node that is cut off and comes back; commands that come twice, late and in the wrong order; real engines."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from tests.integration.agent.test_agent import agent, desired, node, offered, spec, state_of
from tests.support.control_plane import control_plane, eventually
from tests.support.wire import wire_to
from workers.contracts.link import DesiredPush

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]

LEASE_S = 3.0
__all__ = ["node"]


async def _answer(reader, writer):
    await reader.readline()
    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
    writer.close()


@asynccontextmanager
async def apart(node, plane):
    """An agent with one wire to the control plane and one to another node's gateway."""
    other = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with wire_to(plane.port) as control, wire_to(other.sockets[0].getsockname()[1]) as peer:
        url = f"ws://127.0.0.1:{control.port}/ws/agent/"
        async with agent(node, plane, control_url=url):
            yield control, peer
    other.close()


def leased(*specs, peer, **facts):
    peers = [f"http://127.0.0.1:{peer.port}"]
    return structs.replace(desired(*specs, **facts), lease_s=LEASE_S, peers=peers)


def runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_one_that_is_cut_off_from_all_stops_serving_and_starts_nothing_until_it_is_told_again(node):
    one = spec()
    async with control_plane() as plane, apart(node, plane) as (control, peer):
        plane.desired = leased(one, peer=peer)
        await eventually(lambda: state_of(plane) == "ready")
        pid = plane.latest.replicas[0].pid
        control.cut()
        peer.cut()
        await eventually(lambda: not runs(pid), timeout_s=30)
        assert offered(node) == {}
        await asyncio.sleep(2)
        assert offered(node) == {}
        plane.telemetry.clear()
        plane.desired = leased(peer=peer, generation=2, fence=2)
        control.mend()
        await eventually(lambda: plane.latest and plane.latest.desired_generation == 2, timeout_s=30)
        await eventually(lambda: not plane.latest.replicas, timeout_s=30)
        await plane.send(DesiredPush(body=leased(one, peer=peer, generation=9, fence=1)))
        await asyncio.sleep(1.5)
        assert (offered(node), plane.latest.desired_generation) == ({}, 2)


async def test_one_that_hears_another_node_serves_on_and_restarts_what_dies(node):
    async with control_plane() as plane, apart(node, plane) as (control, peer):
        plane.desired = leased(spec(), peer=peer)
        await eventually(lambda: state_of(plane) == "ready")
        pid = plane.latest.replicas[0].pid
        control.cut()
        await asyncio.sleep(2 * LEASE_S)
        assert runs(pid)
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: not offered(node))
        await eventually(lambda: set(offered(node)) == {"replica-1"}, timeout_s=30)


async def test_one_that_comes_back_before_its_lease_is_over_has_lost_nothing(node):
    async with control_plane() as plane, apart(node, plane) as (control, peer):
        plane.desired = leased(spec(), peer=peer)
        await eventually(lambda: state_of(plane) == "ready")
        pid = plane.latest.replicas[0].pid
        control.cut()
        await asyncio.sleep(1)
        plane.telemetry.clear()
        control.mend()
        await eventually(lambda: plane.latest and state_of(plane) == "ready", timeout_s=30)
        assert plane.latest.replicas[0].pid == pid


async def test_what_comes_twice_late_or_in_the_wrong_order_ends_as_the_newest_says(node):
    one, two = spec(), spec(replica_id="replica-2")
    states = [desired(generation=1), desired(one, two, generation=2), desired(two, generation=3)]
    async with control_plane() as plane, agent(node, plane):
        await eventually(lambda: plane.telemetry)
        for number in (2, 0, 1, 2, 1, 0, 2):
            await plane.send(DesiredPush(body=states[number]))
        await eventually(lambda: state_of(plane, "replica-2") == "ready", timeout_s=30)
        pid = next(each.pid for each in plane.latest.replicas if each.replica_id == "replica-2")
        for number in (1, 0, 2, 0):
            await plane.send(DesiredPush(body=states[number]))
        await asyncio.sleep(2)
        assert {each.replica_id: each.pid for each in plane.latest.replicas if each.pid} == {"replica-2": pid}
        assert plane.latest.replicas[-1].restarts == 0
