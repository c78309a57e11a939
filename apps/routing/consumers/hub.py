"""All agent links of this process: one look for news, and one telemetry write a second, serve them all."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Coroutine, KeysView
from typing import Any, Protocol
from uuid import UUID

import msgspec
from django.db import Error as DatabaseError
from django.utils import timezone
from redis.asyncio import Redis
from redis.exceptions import RedisError

from apps.common import live
from apps.common.valkey import new_async_client, wait_for_wakes
from apps.deployments.selectors import list_newer_bodies
from apps.fleet.selectors import list_known_nodes
from apps.fleet.services.nodes import record_seen
from apps.routing.consumers.database import in_beating_thread, in_looking_thread
from apps.routing.consumers.session import Newest
from apps.routing.consumers.usage_inbox import UsageInbox
from apps.routing.consumers.writes import store_usage
from apps.routing.selectors.status import get_newest_envelope
from apps.telemetry.policies import NodeFrame, overview_of, point_of, rates_between, with_tails
from apps.telemetry.services.frames import extend_series, store_frames
from workers.contracts.telemetry import NodeTelemetry

log = logging.getLogger(__name__)

LOOK_EACH_S = 2.0
TELEMETRY_EACH_S = 1.0
VALKEY_TIMEOUT_S = 2.0


class Link(Protocol):
    """What the hub asks of a connection."""

    node_id: UUID

    async def push(self, newest: Newest) -> None: ...

    async def replaced(self) -> None: ...

    async def removed(self) -> None: ...

    def missed(self) -> None: ...


class LinkHub:
    """Bounded by the number of nodes: one link each, and its latest frame."""

    def __init__(self) -> None:
        self.usage = UsageInbox(store_usage)
        self._links: dict[UUID, Link] = {}
        self._frames: dict[UUID, NodeFrame] = {}
        self._unsent: dict[UUID, NodeFrame] = {}
        self._snapshot: tuple[int, bytes] | None = None
        self._desired: dict[UUID, tuple[int, bytes]] = {}
        self._news = asyncio.Event()
        self._seen: set[UUID] = set()
        self._loops: list[asyncio.Task[None]] = []

    def ensure_running(self) -> None:
        if not self._loops:
            turns = (self._look_for_news(), self._listen(), self._store_telemetry())
            self._loops = [asyncio.create_task(turn) for turn in turns]

    async def close(self) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._loops = []

    async def opened(self, link: Link) -> None:
        """A second connection of a node replaces the first: its agent has restarted, or lost the line unseen."""
        previous = self._links.get(link.node_id)
        self._links[link.node_id] = link
        if previous is not None:
            await previous.replaced()
        self._news.set()

    def closed(self, link: Link) -> None:
        if self._links.get(link.node_id) is link:
            del self._links[link.node_id]
            self._frames.pop(link.node_id, None)
            self._desired.pop(link.node_id, None)

    def telemetry_came(self, node_id: UUID, telemetry: NodeTelemetry, received_at: float) -> None:
        previous = self._frames.get(node_id)
        telemetry = with_tails(telemetry, previous)
        rates = rates_between(previous, telemetry, received_at)
        frame = NodeFrame(received_at=received_at, telemetry=telemetry, rates=rates)
        self._frames[node_id] = self._unsent[node_id] = frame

    def seen(self, node_id: UUID) -> None:
        """It is noted with all others of the same second."""
        self._seen.add(node_id)

    def newest_for(self, node_id: UUID) -> Newest:
        return Newest(snapshot=self._snapshot, desired=self._desired.get(node_id))

    async def _look_for_news(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EACH_S):
                    await self._news.wait()
            self._news.clear()
            await _guarded("look for news", self._push_news())

    async def _push_news(self) -> None:
        held = {node_id: self._desired.get(node_id, (0, b""))[0] for node_id in self._links}
        if not held:
            return
        await self._end_removed(held.keys())
        self._snapshot = await in_looking_thread(get_newest_envelope)
        self._desired |= await in_looking_thread(list_newer_bodies, held)
        pushes = (link.push(self.newest_for(link.node_id)) for link in list(self._links.values()))
        await asyncio.gather(*pushes, return_exceptions=True)

    async def _end_removed(self, linked: KeysView[UUID]) -> None:
        """A node's token ends with it, and so does the link that was opened by it: it gets no more snapshots."""
        known = await in_looking_thread(list_known_nodes, list(linked))
        gone = [link for link in self._links.values() if link.node_id in linked and link.node_id not in known]
        await asyncio.gather(*(link.removed() for link in gone), return_exceptions=True)

    async def _listen(self) -> None:
        while True:
            await _guarded("listen for wakes", wait_for_wakes(self._news))
            await asyncio.sleep(LOOK_EACH_S)

    async def _store_telemetry(self) -> None:
        client = new_async_client()
        try:
            while True:
                # On whole seconds, so that what several processes tell of the same second adds up.
                await asyncio.sleep(TELEMETRY_EACH_S - time.time() % TELEMETRY_EACH_S)
                frames, self._unsent = self._unsent, {}
                stored = store_frames(client, {str(node_id): frame for node_id, frame in frames.items()})
                await _guarded("store telemetry", _within(VALKEY_TIMEOUT_S, stored))
                await _guarded("publish telemetry", _within(VALKEY_TIMEOUT_S, self._tell_overview(client)))
                await _guarded("note who was heard", self._note_seen())
        finally:
            await client.aclose()

    async def _note_seen(self) -> None:
        seen, self._seen = self._seen, set()
        try:
            missed = await in_beating_thread(record_seen, node_ids=list(seen), now=timezone.now()) if seen else []
        except DatabaseError:
            self._seen |= seen
            raise
        for node_id in missed:
            if node_id in self._links:
                self._links[node_id].missed()

    async def _tell_overview(self, client: Redis) -> None:
        overview = overview_of(list(self._frames.values()), time.time())
        await live.publish(live.OVERVIEW, msgspec.to_builtins(overview))
        if overview.nodes_reporting:
            await extend_series(client, point_of(overview))


async def _guarded(what: str, work: Coroutine[Any, Any, None]) -> None:
    """A service that is away stops no loop: the next turn tries again."""
    try:
        await work
    except (DatabaseError, RedisError, OSError, TimeoutError) as error:
        log.warning("a link loop failed a turn", extra={"work": what, "error": str(error)})


async def _within(timeout_s: float, work: Awaitable[object]) -> None:
    async with asyncio.timeout(timeout_s):
        await work
