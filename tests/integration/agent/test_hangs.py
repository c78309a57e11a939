"""Engines that hang: real processes, seen by what comes out of them, with the times that people are promised."""

import asyncio
import os
import signal
import time

import pytest
from msgspec import structs

from tests.integration.agent.test_agent import agent, desired, node, offered, spec, state_of
from tests.support.control_plane import control_plane, eventually
from tests.support.fake_engines import free_port
from tests.support.raw_http import call
from tests.support.specs import replica_spec
from workers.agent.engines.memory import Timers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

PROMISED_S = 30.0
# Their own times, which the promise is about; only turns come quicker.
REAL = Timers(turn_s=0.5, first_backoff_s=0.1)
__all__ = ["node"]


def body(tokens, **changes):
    return {"prompt": "on", "max_tokens": tokens, "ignore_eos": True, "stream": True} | changes


def can_serve(node):
    return [each for each in offered(node).values() if not each.is_draining]


async def replaced(plane, node, pid):
    """Seconds until a fresh engine serves in place of the one of this pid."""
    began = time.monotonic()
    await eventually(lambda: not can_serve(node), timeout_s=60)
    await eventually(lambda: plane.latest.replicas[0].pid not in (pid, None), timeout_s=60)
    await eventually(lambda: state_of(plane) == "ready", timeout_s=60)
    return time.monotonic() - began


async def fault(one, **faults):
    assert (await call(one.port, "POST", "/fake/faults", faults)).status == 200


async def test_one_that_is_stopped_in_its_tracks_is_replaced(node):
    async with control_plane() as plane, agent(node, plane, timers=REAL):
        plane.desired = desired(spec())
        await eventually(lambda: state_of(plane) == "ready")
        pid = plane.latest.replicas[0].pid
        os.kill(pid, signal.SIGSTOP)
        assert await replaced(plane, node, pid) < PROMISED_S
        assert plane.latest.replicas[0].restarts == 1


async def test_one_whose_loop_is_frozen_is_replaced(node):
    one = spec()
    async with control_plane() as plane, agent(node, plane, timers=REAL):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "ready")
        pid = plane.latest.replicas[0].pid
        await fault(one, freeze_for_s=120)
        assert await replaced(plane, node, pid) < PROMISED_S


async def test_one_whose_health_lies_is_replaced(node):
    one = spec()
    async with control_plane() as plane, agent(node, plane, timers=REAL):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "ready")
        pid = plane.latest.replicas[0].pid
        await fault(one, is_hanging=True)
        stuck = asyncio.create_task(call(one.port, "POST", "/v1/completions", body(50)))
        assert await replaced(plane, node, pid) < PROMISED_S
        stuck.cancel()


async def test_one_that_is_saturated_and_slow_to_answer_is_left_alone(node):
    """More work than it can hold, and a /health that nobody waits for: its tokens come."""
    one = replica_spec(port=free_port(), engine_args={"time_scale": 3.0}, max_running_requests=2)
    quick = structs.replace(REAL, stall_s=6.0, hung_after_s=8.0, trial_s=4.0, unhealthy_limit_s=8.0)
    async with control_plane() as plane, agent(node, plane, timers=quick):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "ready")
        pid = plane.latest.replicas[0].pid
        await fault(one, health_delay_s=30)
        load = [asyncio.create_task(call(one.port, "POST", "/v1/completions", body(2000))) for _ in range(12)]
        seen = len(plane.telemetry)
        await eventually(lambda: len(plane.telemetry) > seen + 40, timeout_s=45)
        states = {frame.replicas[0].state for frame in plane.telemetry[seen:]}
        for each in load:
            each.cancel()
        assert (states, plane.latest.replicas[0].pid) == ({"ready"}, pid)


async def test_one_that_hangs_when_asked_to_end_is_killed_after_its_grace(node):
    one = spec()
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "ready")
        pid = plane.latest.replicas[0].pid
        await fault(one, ignores_sigterm=True)
        plane.desired = desired(generation=2)
        await eventually(lambda: state_of(plane) == "stopped" or not plane.latest.replicas, timeout_s=20)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_it_sleeps_and_wakes_in_the_same_process(node):
    one = spec(sleeps=True)
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "ready")
        pid = plane.latest.replicas[0].pid
        plane.desired = desired(structs.replace(one, is_asleep=True), generation=2)
        await eventually(lambda: state_of(plane) == "sleeping")
        assert offered(node) == {}
        plane.desired = desired(one, generation=3)
        await eventually(lambda: state_of(plane) == "ready")
        assert (plane.latest.replicas[0].pid, set(offered(node))) == (pid, {"replica-1"})


async def test_an_agent_that_comes_new_knows_since_when_one_drains(node):
    one = replica_spec(port=free_port(), engine_args={"time_scale": 2.0})
    limited = Timers(turn_s=0.2, drain_limit_s=8.0, drain_settle_s=1.0)
    async with control_plane() as plane:
        plane.desired = desired(one)
        async with agent(node, plane, timers=limited):
            await eventually(lambda: state_of(plane) == "ready")
            stream = asyncio.create_task(call(one.port, "POST", "/v1/completions", body(2000)))
            await asyncio.sleep(0.3)
            plane.desired = desired(structs.replace(one, is_draining=True), generation=2)
            await eventually(lambda: state_of(plane) == "draining")
            began = time.monotonic()
            await asyncio.sleep(4)
        async with agent(node, plane, timers=limited):
            await eventually(lambda: state_of(plane) == "stopped", timeout_s=12)
            assert time.monotonic() - began < 8 + 4
        stream.cancel()
