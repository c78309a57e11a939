"""A gateway in the test's own loop, with its spool in view."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.support.fake_engines import free_port
from tests.support.raw_http import RawResponse, call
from workers.contracts.endpoints import EngineShape
from workers.contracts.example import build_snapshot
from workers.contracts.snapshot import Snapshot
from workers.contracts.spool import decode_lines, list_segments
from workers.contracts.usage import UsageRecord
from workers.gateway.configuration import GatewayConfig
from workers.gateway.front.proofs import prove
from workers.gateway.payload.labels import FORWARDED, PROOF
from workers.gateway.service import GatewayService
from workers.gateway.snapshots.files import SnapshotFile

KEYS = {"gold": "ty-test-gold", "standard": "ty-test-standard", "batch": "ty-test-batch"}


@dataclass
class RunningGateway:
    service: GatewayService
    port: int
    directory: Path
    stop: asyncio.Event
    task: "asyncio.Task[None]"

    async def call(
        self, method: str, path: str, body: Any = None, *, tenant: str = "gold", headers: dict[str, str] | None = None
    ) -> RawResponse:
        return await call(self.port, method, path, body, authorised(tenant) | (headers or {}))

    async def chat(self, content: str = "hello there", *, tenant: str = "gold", **fields: Any) -> RawResponse:
        return await self.call("POST", "/v1/chat/completions", chat_body(content, **fields), tenant=tenant)

    def records(self) -> list[UsageRecord]:
        found = []
        for segment in list_segments(self.directory / "spool"):
            found += decode_lines(segment.read_bytes(), 1_000_000)[0]
        return found

    async def wait_for_records(self, count: int, timeout_s: float = 10) -> list[UsageRecord]:
        deadline = time.monotonic() + timeout_s
        while len(self.records()) < count and time.monotonic() < deadline:  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.01)
        return self.records()

    def publish(self, snapshot: Snapshot) -> None:
        (self.directory / "next.json").write_bytes(msgspec.json.encode(snapshot))
        (self.directory / "next.json").replace(self.directory / "snapshot.json")

    async def wait_for_generation(self, generation: int, timeout_s: float = 5) -> None:
        deadline = time.monotonic() + timeout_s
        while self.service.report.active_generation != generation:
            assert time.monotonic() < deadline, "the snapshot did not become active"
            await asyncio.sleep(0.02)


def authorised(tenant: str = "gold") -> dict[str, str]:
    return {"Authorization": f"Bearer {KEYS[tenant]}"}


def as_a_gateway(secret: str, note: bytes, request_id: str = "asked", **said: str) -> dict[str, str]:
    """Headers of a request that another node's gateway passes on; `said` are further ones."""
    proof = prove(secret, FORWARDED, request_id.encode(), time.time()).decode()
    named = {FORWARDED.decode(): note.decode(), PROOF.decode(): proof, "x-request-id": request_id}
    return authorised() | named | {name.replace("_", "-"): value for name, value in said.items()}


def chat_body(content: str = "hello there", **fields: Any) -> dict[str, Any]:
    return {"model": "demo-chat", "messages": [{"role": "user", "content": content}], "max_tokens": 8} | fields


def message_body(content: str = "hello there", **fields: Any) -> dict[str, Any]:
    """For /v1/messages."""
    return chat_body(content, **fields)


def response_body(content: str = "hello there", **fields: Any) -> dict[str, Any]:
    """For /v1/responses."""
    return {"model": "demo-chat", "input": content, "max_output_tokens": 8} | fields


def snapshot_for(*versions: tuple[str, int, Sequence[int]], **changes: Any) -> Snapshot:
    """`versions` are (served name, weight, engine ports)."""
    with_urls = [(name, weight, [f"http://127.0.0.1:{port}" for port in ports]) for name, weight, ports in versions]
    built = build_snapshot(model="demo-chat", versions=with_urls, keys=KEYS, now=time.time())
    return msgspec.structs.replace(built, **changes)


def with_task(snapshot: Snapshot, task: str) -> Snapshot:
    """The same with models that do this."""
    versions = [msgspec.structs.replace(version, task=task) for version in snapshot.versions]
    return msgspec.structs.replace(snapshot, versions=versions)


def with_shape(snapshot: Snapshot, time_scale: float, *, has_priorities: bool = True, **changes: Any) -> Snapshot:
    """The same with engines that are known to be as fast as fake ones of that scale; `changes` are of endpoints."""
    shape = EngineShape(cost_profile="llama3-8b/h100/tp1", time_scale=time_scale, has_priorities=has_priorities)
    endpoints = [msgspec.structs.replace(endpoint, shape=shape, **changes) for endpoint in snapshot.endpoints]
    return msgspec.structs.replace(snapshot, endpoints=endpoints)


def without_limits(snapshot: Snapshot) -> Snapshot:
    profiles = [msgspec.structs.replace(profile, ttft_ms=0, tpot_ms=0) for profile in snapshot.slo_profiles]
    return msgspec.structs.replace(snapshot, slo_profiles=profiles)


@asynccontextmanager
async def running_gateway(directory: Path, snapshot: Snapshot, **config: Any) -> AsyncIterator[RunningGateway]:
    """Stops with the block, and fails if any request is left without its end."""
    (directory / "snapshot.json").write_bytes(msgspec.json.encode(snapshot))
    port = free_port()
    settings: dict[str, Any] = {"host": "127.0.0.1", "gateway_id": "g1", "node_id": "n1", "grace_s": 1.0} | config
    service = GatewayService(
        GatewayConfig(port=port, spool=directory / "spool", **settings),
        SnapshotFile(directory / "snapshot.json", None, keep_last_good=False),
        None,
    )
    stop = asyncio.Event()
    task = asyncio.create_task(service.run(stop))
    await _wait_for_port(port, task)
    gateway = RunningGateway(service, port, directory, stop, task)
    try:
        yield gateway
    finally:
        stop.set()
        await asyncio.wait_for(task, 10)
    assert service._surface.exchanges == set()
    assert service._driver.scheduler.running_total() == 0
    assert service._driver._flights.by_id == {}
    assert [engine for engine in service._driver.engines if engine.pool._idle] == []
    for endpoint in service._driver.endpoints:
        assert service._driver.scheduler.is_idle(endpoint.endpoint_id)


async def _wait_for_port(port: int, task: "asyncio.Task[None]") -> None:
    for _ in range(500):
        if task.done():
            task.result()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return
    raise TimeoutError("the gateway does not listen")
