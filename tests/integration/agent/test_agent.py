"""The agent with real fake engines, a real websocket server and the real files of a node."""

import asyncio
import os
import time
from contextlib import asynccontextmanager
from pathlib import Path
from random import SystemRandom
from urllib.error import URLError

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import structs

from tests.support.control_plane import TOKEN, control_plane, eventually
from tests.support.engines import get
from tests.support.fake_engines import free_port
from tests.support.raw_http import call
from tests.support.specs import replica_spec
from tests.support.usage_records import usage_record, write_segment
from workers.agent.core import Agent
from workers.agent.engines.memory import Timers
from workers.agent.engines.processes import EngineProcesses
from workers.agent.settings import AgentSettings
from workers.contracts import layout
from workers.contracts.desired import DesiredState
from workers.contracts.endpoints import EndpointList
from workers.contracts.link import DesiredPush, SnapshotPush
from workers.contracts.signing import sign
from workers.contracts.snapshot import Snapshot
from workers.contracts.spool import list_segments
from workers.contracts.telemetry import GatewayReport
from workers.engines.registry import build_adapters
from workers.engines.site import find_site

pytestmark = pytest.mark.integration

QUICK = Timers(turn_s=0.2, first_backoff_s=0.1, drain_settle_s=1.0, refusal_retry_s=1.0)


@pytest.fixture
def node(tmp_path):
    """The node's directory; whatever still runs there at the end is killed."""
    directory = tmp_path / "node"
    directory.mkdir()
    yield directory
    processes = EngineProcesses(directory, {})
    for replica_id in processes.observe():
        processes.kill(replica_id)


@asynccontextmanager
async def agent(node, plane, timers=QUICK, **changes):
    settings = AgentSettings(
        **{"node_id": "node-1", "token": TOKEN, "control_url": plane.url, "node_directory": node} | changes
    )
    running = Agent(settings, build_adapters(find_site(os.environ)), os.environ, SystemRandom(), timers)
    stopping = asyncio.Event()
    task = asyncio.create_task(running.run(stopping))
    try:
        yield running
    finally:
        stopping.set()
        await asyncio.wait_for(task, 10)


def spec(*, sleeps=False, weights_repository=None, **changes):
    arguments = {"time_scale": 0.01, "weights_repository": weights_repository}
    arguments |= {"enable_sleep_mode": True} if sleeps else {}
    return replica_spec(port=free_port(), engine_args=arguments, **changes)


def desired(*specs, generation=1, fence=1):
    return DesiredState(node_id="node-1", generation=generation, fence=fence, replicas=list(specs))


def told(node):
    try:
        return msgspec.json.decode((node / layout.ENDPOINTS_FILE).read_bytes(), type=EndpointList)
    except FileNotFoundError:
        return EndpointList(node_id="node-1")


def offered(node):
    return {endpoint.endpoint_id: endpoint for endpoint in told(node).endpoints}


def coming(node):
    return {endpoint.endpoint_id: endpoint for endpoint in told(node).coming}


def state_of(plane, replica_id="replica-1"):
    reports = plane.latest.replicas if plane.latest else []
    return next((report.state for report in reports if report.replica_id == replica_id), None)


def environment_of(pid):
    return Path(f"/proc/{pid}/environ").read_bytes()


def snapshot(generation):
    empty = {name: [] for name in ("service_classes", "slo_profiles", "tenants", "keys", "versions", "routes")}
    return Snapshot(generation=generation, compiled_at=1.0, **empty)


async def test_an_engine_that_loads_is_told_to_the_gateway_and_the_next_time_with_its_end(node):
    one = replica_spec(port=free_port(), engine_args={"time_scale": 0.01, "load_time_s": 2.0})
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(one)
        await eventually(lambda: coming(node))
        assert (coming(node)["replica-1"].warmth, coming(node)["replica-1"].ready_at) == ("loading", None)
        assert offered(node) == {}
        await eventually(lambda: "replica-1" in offered(node))
        assert coming(node) == {}
        plane.desired = desired(structs.replace(one, incarnation=1, spec_hash="hash-2"), generation=2)
        await eventually(lambda: coming(node))
        assert coming(node)["replica-1"].ready_at > time.time()


async def test_a_wanted_replica_is_started_proved_offered_and_reported(node):
    one = spec(max_running_requests=7)
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "ready")
        endpoint = offered(node)["replica-1"]
        ledger = await call(one.port, "GET", "/fake/requests")
        await eventually(lambda: plane.latest.replicas[0].generated_tokens_total == 1)
    assert (endpoint.base_url, endpoint.max_running_requests) == (f"http://127.0.0.1:{one.port}", 7)
    assert ledger.json()["requests"][0]["path"] == "/v1/completions"
    report = plane.latest.replicas[0]
    assert (report.running_requests, report.kv_used_ratio) == (0, 0.0)
    assert plane.latest.desired_generation == 1
    assert "fake" in plane.hellos[0].inventory["engines"]


async def test_an_embedding_engine_is_proved_by_an_embedding(node):
    one = spec(task="embed")
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "ready")
        ledger = await call(one.port, "GET", "/fake/requests")
    assert [entry["path"] for entry in ledger.json()["requests"]] == ["/v1/embeddings"]


async def test_an_engine_that_is_healthy_but_answers_no_request_is_never_offered(node):
    one = replica_spec(port=free_port(), engine_args={"time_scale": 0.01, "error_rate": 1.0})
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "warming")
        seen = len(plane.telemetry)
        await eventually(lambda: len(plane.telemetry) > seen + 10)
        assert offered(node) == {}
        assert state_of(plane) == "warming"


async def test_a_dead_engine_is_taken_back_and_replaced(node):
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(spec())
        await eventually(lambda: state_of(plane) == "ready")
        pid = plane.latest.replicas[0].pid
        os.kill(pid, 9)
        await eventually(lambda: offered(node) == {})
        await eventually(lambda: state_of(plane) == "ready" and plane.latest.replicas[0].pid != pid)
    assert plane.latest.replicas[0].restarts == 1


async def test_an_engine_that_cannot_be_started_says_why(node):
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(spec(engine="steam"))
        await eventually(lambda: state_of(plane) == "failed")
    assert "no engine 'steam'" in plane.latest.replicas[0].detail


async def test_a_draining_replica_finishes_its_stream_before_it_is_stopped(node):
    one = replica_spec(port=free_port(), engine_args={"time_scale": 0.5})
    body = {"prompt": "on", "max_tokens": 900, "ignore_eos": True, "stream": True}
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "ready")
        stream = asyncio.create_task(call(one.port, "POST", "/v1/completions", body))
        await asyncio.sleep(0.3)
        plane.desired = desired(structs.replace(one, is_draining=True), generation=2)
        await eventually(lambda: offered(node)["replica-1"].is_draining)
        response = await stream
        await eventually(lambda: state_of(plane) == "stopped")
    assert response.events()[-1] == "[DONE]"
    assert len(response.events()) > 100
    assert offered(node) == {}


async def test_a_changed_spec_replaces_the_engine(node):
    one = spec()
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "ready")
        changed = structs.replace(one, served_name="renamed", spec_hash="hash-2")
        plane.desired = desired(changed, generation=2)
        await eventually(
            lambda: state_of(plane) == "ready" and plane.latest.replicas[0].spec_hash == "hash-2", timeout_s=20
        )
        models = await call(one.port, "GET", "/v1/models")
    assert models.json()["data"][0]["id"] == "renamed"


async def test_engines_outlive_their_agent_and_the_next_one_takes_them_over_untouched(node):
    async with control_plane() as plane:
        plane.desired = desired(spec())
        async with agent(node, plane):
            await eventually(lambda: state_of(plane) == "ready")
            pid = plane.latest.replicas[0].pid
        plane.telemetry.clear()
        assert set(offered(node)) == {"replica-1"}
        async with agent(node, plane):
            await eventually(lambda: state_of(plane) == "ready")
            assert plane.latest.replicas[0].pid == pid
    assert plane.latest.replicas[0].restarts == 0


async def test_what_was_given_up_stays_so_when_an_agent_comes_new_until_somebody_asks(node):
    crasher = replica_spec(port=free_port(), engine_args={"crash_after_tokens": 1, "time_scale": 0.01})
    timers = structs.replace(QUICK, first_backoff_s=0.01, longest_backoff_s=0.01, most_crashes=2)
    async with control_plane() as plane:
        plane.desired = desired(crasher)
        async with agent(node, plane, timers=timers):
            await eventually(lambda: plane.latest and plane.latest.replicas and plane.latest.replicas[0].has_given_up)
        plane.telemetry.clear()
        async with agent(node, plane, timers=timers):
            await eventually(lambda: len(plane.telemetry) > 4)
            assert {(each.replicas[0].state, each.replicas[0].has_given_up) for each in plane.telemetry} == {
                ("failed", True)
            }
            assert "given up after 2 crashes" in plane.latest.replicas[0].detail
            plane.desired = desired(spec(spec_hash="asked for"), generation=2)
            await eventually(lambda: state_of(plane) == "ready")


async def test_a_pid_file_of_another_process_harms_nobody(node):
    one = spec()
    async with control_plane() as plane:
        plane.desired = desired(one)
        async with agent(node, plane, stops_engines=True):
            await eventually(lambda: state_of(plane) == "ready")
            path = node / "engine-replica-1.pid"
            record = msgspec.json.decode(path.read_bytes())
        bystander = await asyncio.create_subprocess_exec("sleep", "60")
        path.write_bytes(msgspec.json.encode(record | {"pid": bystander.pid}))
        plane.telemetry.clear()
        async with agent(node, plane):
            await eventually(lambda: state_of(plane) == "ready")
        assert bystander.returncode is None
        bystander.kill()
        await bystander.wait()


async def test_with_the_control_plane_gone_a_new_agent_serves_from_what_it_has(node):
    async with control_plane() as plane:
        plane.desired = desired(spec())
        async with agent(node, plane, stops_engines=True):
            await eventually(lambda: state_of(plane) == "ready")
        assert offered(node) == {}
        await plane.close()
        async with agent(node, plane):
            await eventually(lambda: set(offered(node)) == {"replica-1"})


async def test_the_agent_finds_a_control_plane_that_comes_back(node):
    async with control_plane() as plane, agent(node, plane):
        await eventually(lambda: plane.telemetry)
        await plane.close()
        plane.telemetry.clear()
        await plane.open()
        await eventually(lambda: plane.telemetry)
    assert len(plane.hellos) == 2


async def test_a_lost_push_heals(node):
    async with control_plane() as plane, agent(node, plane):
        plane.loses_pushes = True
        plane.snapshot = snapshot(3)
        await eventually(lambda: plane.telemetry)
        plane.loses_pushes = False
        await eventually(lambda: plane.latest.snapshot_generation == 3)


async def test_a_bad_frame_costs_the_link_and_nothing_else(node):
    async with control_plane() as plane, agent(node, plane):
        await eventually(lambda: plane.telemetry)
        await plane.send_text('{"type": "welcome')
        await eventually(lambda: len(plane.hellos) == 2)


async def test_a_newer_control_plane_may_say_what_this_agent_does_not_know(node):
    async with control_plane() as plane, agent(node, plane):
        await eventually(lambda: plane.telemetry)
        await plane.send_text('{"type": "weather", "body": {"sky": "blue"}}')
        state = msgspec.to_builtins(desired(spec()))
        state |= {"mood": "good", "replicas": [each | {"mood": "good"} for each in state["replicas"]]}
        await plane.send_text(msgspec.json.encode({"type": "desired", "mood": "good", "body": state}).decode())
        await eventually(lambda: state_of(plane) == "ready")
        assert len(plane.hellos) == 1


async def test_snapshots_are_kept_when_signed_and_refused_when_not(node):
    async with control_plane() as plane, agent(node, plane):
        plane.snapshot = snapshot(3)
        await eventually(lambda: plane.latest and plane.latest.snapshot_generation == 3)
        kept = (node / layout.SNAPSHOT_FILE).read_bytes()
        forged = sign(snapshot(9), Ed25519PrivateKey.generate())
        await plane.send(SnapshotPush(generation=9, envelope=msgspec.Raw(forged)))
        seen = len(plane.telemetry)
        await eventually(lambda: len(plane.telemetry) > seen + 1)
    assert kept == sign(snapshot(3), plane.key)
    assert (node / layout.SNAPSHOT_FILE).read_bytes() == kept
    assert plane.latest.snapshot_generation == 3


async def test_a_deposed_controller_is_not_obeyed(node):
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(spec(), generation=5, fence=2)
        await eventually(lambda: state_of(plane) == "ready")
        await plane.send(DesiredPush(body=desired(generation=9, fence=1)))
        seen = len(plane.telemetry)
        await eventually(lambda: len(plane.telemetry) > seen + 2)
    assert state_of(plane) == "ready"


async def test_an_agent_with_a_bad_token_keeps_trying_and_harms_nothing(node):
    async with control_plane() as plane, agent(node, plane, token="stolen"):
        await eventually(lambda: len(plane.refused_tokens) > 1)
    assert plane.hellos == []


async def test_the_gateways_report_is_passed_on_while_it_is_fresh(node):
    report = GatewayReport(gateway_id="g", boot_id="b", active_generation=3)
    async with control_plane() as plane, agent(node, plane):
        (node / layout.GATEWAY_REPORT_FILE).write_bytes(msgspec.json.encode(report))
        await eventually(lambda: plane.latest and plane.latest.gateway == report)
        os.utime(node / layout.GATEWAY_REPORT_FILE, (1000, 1000))
        await eventually(lambda: plane.latest.gateway is None)


async def test_usage_arrives_once_each_in_order_and_finished_segments_go(node):
    spool = node / layout.SPOOL_DIRECTORY
    spool.mkdir()
    write_segment(spool, "boot-1", 0, 1500)
    write_segment(spool, "boot-1", 1500, 700)
    last = write_segment(spool, "boot-2", 2200, 100)
    async with control_plane() as plane, agent(node, plane):
        await eventually(lambda: len(plane.records) == 2300)
        await eventually(lambda: list_segments(spool) == [last])
    assert [record.sequence for record in plane.records.values()] == list(range(2300))
    assert plane.duplicates == 0


async def test_usage_written_while_the_link_is_down_arrives_when_it_is_back(node):
    spool = node / layout.SPOOL_DIRECTORY
    spool.mkdir()
    async with control_plane() as plane:
        await plane.close()
        async with agent(node, plane):
            write_segment(spool, "boot-1", 0, 5)
            await asyncio.sleep(1.5)
            await plane.open()
            await eventually(lambda: len(plane.records) == 5)


async def test_a_lost_acknowledgement_sends_again_and_loses_nothing(node):
    spool = node / layout.SPOOL_DIRECTORY
    spool.mkdir()
    segment = write_segment(spool, "boot-1", 0, 5)
    async with control_plane() as plane:
        plane.loses_acks = True
        async with agent(node, plane):
            await eventually(lambda: len(plane.records) == 5)
        assert not segment.with_name(segment.name + ".ack").exists()
        plane.loses_acks = False
        async with agent(node, plane):
            await eventually(lambda: plane.duplicates == 5)
            await eventually(segment.with_name(segment.name + ".ack").exists)
    assert usage_record(4) == plane.records["record-4"]


async def test_engines_get_none_of_the_agents_secrets(node, monkeypatch):
    monkeypatch.setenv("TOKENYARD_AGENT_TOKEN", "secret")
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(spec())
        await eventually(lambda: state_of(plane) == "ready")
        assert b"TOKENYARD" not in environment_of(plane.latest.replicas[0].pid)


async def test_stopping_engines_leaves_no_process(node):
    one = spec()
    async with control_plane() as plane:
        plane.desired = desired(one)
        async with agent(node, plane, stops_engines=True):
            await eventually(lambda: state_of(plane) == "ready")
    with pytest.raises(URLError, match="refused"):
        get(f"http://127.0.0.1:{one.port}/health")
    assert list(node.glob("*.pid")) == []
