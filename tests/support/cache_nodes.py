"""A gateway in front of engines that publish their KV events, and what it believes of their caches."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.fake_engines import fake_engine
from tests.support.gateways import RunningGateway, running_gateway, snapshot_for
from workers.contracts.endpoints import EngineShape, KVEvents
from workers.contracts.snapshot import Snapshot
from workers.engines.fake.server import FakeServer
from workers.engines.kv_sockets import events_config
from workers.gateway.kv_events import follower

BLOCK_TOKENS = 16


@contextmanager
def sockets(count: int) -> Iterator[list[KVEvents]]:
    """In a directory with a short name: the path of a socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="kv-") as directory:
        yield [
            KVEvents(publisher=f"ipc://{directory}/{number}.pub", replay=f"ipc://{directory}/{number}.replay")
            for number in range(count)
        ]


def publishing(snapshot: Snapshot, events: list[KVEvents]) -> Snapshot:
    """The same with engines that publish there, in the order of their ports."""
    endpoints = [
        msgspec.structs.replace(
            endpoint,
            shape=EngineShape(
                cost_profile="llama3-8b/h100/tp1", time_scale=0.05, block_tokens=BLOCK_TOKENS, kv_events=where
            ),
        )
        for endpoint, where in zip(snapshot.endpoints, events, strict=True)
    ]
    return msgspec.structs.replace(snapshot, endpoints=endpoints)


@asynccontextmanager
async def publishing_engines(
    events: list[KVEvents], *options: str, kept_batches: int = 5000
) -> AsyncIterator[list[FakeServer]]:
    async with contextlib.AsyncExitStack() as stack:
        arguments = ("--served-model-name", "demo-chat", "--num-gpu-blocks-override", "2048", *options)
        engines = []
        for each in events:
            config = msgspec.json.encode(msgspec.json.decode(events_config(each)) | {"buffer_steps": kept_batches})
            publishing = fake_engine(*arguments, "--kv-events-config", config.decode())
            engines.append(await stack.enter_async_context(publishing))
        yield engines


class CacheNode:
    def __init__(self, gateway: RunningGateway, engines: list[FakeServer]) -> None:
        self.gateway = gateway
        self.engines = engines

    @property
    def endpoint_ids(self) -> list[str]:
        return [endpoint.endpoint_id for endpoint in self.gateway.service._driver.endpoints]

    def states(self) -> list[str]:
        return [engine.cache_state for engine in self.gateway.service._driver.engines]

    def hits(self, request_id: str) -> dict[str, int]:
        """Tokens that the index said were cached when the request was sent, by endpoint; of those that had any."""
        decision = self.gateway.service.explain(request_id)
        assert decision is not None
        scores = decision.choices[-1].considered
        return {score.endpoint_id: score.hit_tokens for score in scores if score.hit_tokens}

    async def eventually(self, is_so: Callable[[], bool], timeout_s: float = 30) -> None:
        async with asyncio.timeout(timeout_s):
            while not is_so():  # noqa: ASYNC110 - what engines and gateway do here gives no event
                await asyncio.sleep(0.02)

    async def are_exact(self) -> None:
        await self.eventually(lambda: set(self.states()) == {"exact"})

    def cached_blocks(self) -> int:
        """In all engines, by their events."""
        versions = self.gateway.service._caches._versions.values()
        return sum(len(follower.cached) for version in versions for follower in version.followers.values())

    async def has_learned(self, prompts: int, timeout_s: float = 30) -> None:
        """Their tokens, and that some engine has cached them."""
        figures = self.gateway.service.metrics.kv_events
        await self.eventually(
            lambda: figures.prompts["learned"] == prompts and self.cached_blocks() > 50,
            timeout_s,
        )


@asynccontextmanager
async def cache_node(directory: Path, count: int = 2, *options: str) -> AsyncIterator[CacheNode]:
    with sockets(count) as events:
        async with publishing_engines(events, *options) as engines, node_before(directory, engines, events) as node:
            if count > 1:
                await node.are_exact()
            yield node


@asynccontextmanager
async def node_before(
    directory: Path, engines: list[FakeServer], events: list[KVEvents], **config: Any
) -> AsyncIterator[CacheNode]:
    """A gateway in front of engines that run already."""
    snapshot = snapshot_for(("demo-chat", 100, [engine.port for engine in engines]))
    async with running_gateway(directory, publishing(snapshot, events), **config) as gateway:
        yield CacheNode(gateway, engines)


@contextmanager
def quick_checks() -> Iterator[None]:
    """An engine is taken for silent after a second, and what is known of its cache is saved ten times a second."""
    quick = {"CHECK_EVERY_S": 0.2, "SILENT_AFTER_S": 1.0, "RECEIVE_WITHIN_S": 0.05, "SAVE_EVERY_S": 0.1}
    with pytest.MonkeyPatch.context() as patch:
        for name, seconds in quick.items():
            patch.setattr(follower, name, seconds)
        yield
