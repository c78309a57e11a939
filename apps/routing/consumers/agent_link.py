"""`/ws/agent/`: the raw ASGI end of an agent's websocket (frames: workers/contracts/link.py).

Not a Channels consumer: a node sends a frame a second, and the handler around it should cost next to nothing.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextlib import suppress
from typing import Any

import msgspec
from django.conf import settings
from django.db import Error as DatabaseError
from django.utils import timezone
from msgspec import structs

from apps.fleet.models import Node
from apps.fleet.selectors import find_node_by_token, was_removed
from apps.routing.consumers.database import in_database_thread
from apps.routing.consumers.hub import LinkHub
from apps.routing.consumers.session import LinkState, Newest
from apps.routing.consumers.writes import incoming_of, write_decisions, write_hello, write_news, write_prompts
from apps.routing.services.snapshots import snapshot_key
from workers.contracts import link as frames
from workers.contracts.signing import public_key_text
from workers.contracts.telemetry import NodeTelemetry

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Batch = frames.UsageBatch | frames.LooseUsageBatch
Frame = frames.FromAgent | frames.LooseUsageBatch

MAX_FRAME_CHARACTERS = 4 * 1024 * 1024
MAX_BATCHES_IN_WORK = 2
MAX_DECISIONS = 1024  # of one node's, while the database is slow
HELLO_TIMEOUT_S = 10.0
SILENCE_TIMEOUT_S = 30.0
CLOSE_TOO_BIG = 1009
CLOSE_TRY_LATER = 1013
CLOSE_SILENT = 4408
# That the agent has left, as servers say it: uvicorn otherwise where it has answered the agent's own close.
_GONE = (OSError, RuntimeError)


class LinkClosedError(Exception):
    """The link ends with this code; None when the agent has already gone."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


class AgentLink:
    """One connection, from its handshake to its end."""

    def __init__(self, node: Node, hub: LinkHub, receive: Receive, send: Send) -> None:
        self.node_id = node.pk
        self._name = node.name
        self._hub = hub
        self._receive = receive
        self._send = send
        self._state = LinkState(node.pk)
        self._batches: set[asyncio.Task[None]] = set()
        self._unwritten: NodeTelemetry | None = None
        self._writer: asyncio.Task[None] | None = None
        self._is_open = True

    async def run(self) -> None:
        try:
            await self._greet()
            await self._hub.opened(self)
            while self._is_open:
                await self._take(await self._next_frame(SILENCE_TIMEOUT_S))
        except LinkClosedError as closed:
            await self._end(closed.code)
        finally:
            self._is_open = False
            self._hub.closed(self)
            for task in (*self._batches, *([self._writer] if self._writer else [])):
                task.cancel()

    async def push(self, newest: Newest) -> None:
        for frame in self._state.frames_to_push(newest, time.monotonic()):
            await self._send_text(frame)

    async def replaced(self) -> None:
        await self._end(frames.CLOSE_REPLACED)

    async def removed(self) -> None:
        await self._end(frames.CLOSE_REMOVED)

    def missed(self) -> None:
        """It was taken for silent while its link held: its replicas' states are unknown until they are told again."""
        self._state.doubt_written(timezone.now())

    async def _greet(self) -> None:
        hello = await self._next_frame(HELLO_TIMEOUT_S)
        if not isinstance(hello, frames.Hello):
            raise LinkClosedError(frames.CLOSE_BAD_FRAME)
        await write_hello(self.node_id, hello, timezone.now())
        welcome = frames.Welcome(
            node_id=str(self.node_id),
            node_name=self._name,
            snapshot_public_key=public_key_text(snapshot_key()),
            server_time=time.time(),
            limits_url=settings.NODE_VALKEY_URL,
        )
        await self._send_text(msgspec.json.encode(welcome))

    async def _take(self, frame: Frame | None) -> None:
        match frame:
            case frames.Telemetry():
                await self._telemetry_came(frame)
            case frames.UsageBatch() | frames.LooseUsageBatch():
                self._in_work(self._store(frame))
            case frames.PromptBatch():
                self._in_work(self._keep(frame))
            case frames.Hello():
                raise LinkClosedError(frames.CLOSE_BAD_FRAME)

    async def _telemetry_came(self, frame: frames.Telemetry) -> None:
        if not self._state.is_newer(frame.body):
            return
        now = timezone.now()
        if self._state.heard(frame.body, now):
            self._hub.seen(self.node_id)
        self._hub.telemetry_came(self.node_id, structs.replace(frame.body, decisions=[]), now.timestamp())
        await self.push(self._hub.newest_for(self.node_id))
        self._unwritten = _with_untold(frame.body, self._unwritten)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_newest())

    async def _write_newest(self) -> None:
        """Beside what comes: a database that is slow makes no link stand still, and gets each node's newest only."""
        while (telemetry := self._unwritten) is not None:
            self._unwritten, now = None, timezone.now()
            news = self._state.telemetry_came(telemetry, now)
            if not await write_news(self.node_id, news, now):
                self._state.forget_written()
            if telemetry.decisions:
                await write_decisions(self.node_id, telemetry.decisions, now)

    def _in_work(self, work: Coroutine[None, None, None]) -> None:
        """Beside the telemetry; what is beyond the bound is dropped, and comes again for want of an answer."""
        if len(self._batches) >= MAX_BATCHES_IN_WORK:
            work.close()
            return
        task = asyncio.create_task(work)
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)

    async def _store(self, batch: Batch) -> None:
        counts = await self._hub.usage.take(incoming_of(self.node_id, batch))
        if counts is not None:
            ack = frames.UsageAck(batch_id=batch.batch_id, stored=counts.stored, duplicate=counts.duplicate)
            await self._send_text(msgspec.json.encode(ack))

    async def _keep(self, batch: frames.PromptBatch) -> None:
        if await write_prompts(batch.prompts, timezone.now()):
            await self._send_text(msgspec.json.encode(frames.PromptAck(batch_id=batch.batch_id)))

    async def _next_frame(self, timeout_s: float) -> Frame | None:
        """None for one that this end does not know."""
        try:
            async with asyncio.timeout(timeout_s):
                message = await self._receive()
        except TimeoutError as error:
            raise LinkClosedError(CLOSE_SILENT) from error
        if message["type"] != "websocket.receive":
            raise LinkClosedError(None)
        return _decoded(message.get("text") or "")

    async def _send_text(self, frame: bytes) -> None:
        if not self._is_open:
            return
        try:
            await self._send({"type": "websocket.send", "text": frame.decode()})
        except _GONE:  # the loop that reads will see it, too
            self._is_open = False

    async def _end(self, code: int | None) -> None:
        if self._is_open and code is not None:
            self._is_open = False
            with suppress(*_GONE):
                await self._send({"type": "websocket.close", "code": code})


def _with_untold(newest: NodeTelemetry, unwritten: NodeTelemetry | None) -> NodeTelemetry:
    """Decisions are told once each, and so those of one that is not written come with the next, the newest of them."""
    if unwritten is None or not unwritten.decisions:
        return newest
    return structs.replace(newest, decisions=[*unwritten.decisions, *newest.decisions][-MAX_DECISIONS:])


def _decoded(text: str) -> Frame | None:
    if len(text) > MAX_FRAME_CHARACTERS:
        raise LinkClosedError(CLOSE_TOO_BIG)
    try:
        return frames.decode_from_agent(text)
    except msgspec.DecodeError as error:
        return _decoded_loosely(text, error)


def _decoded_loosely(text: str, error: msgspec.DecodeError) -> frames.LooseUsageBatch | None:
    """A batch in which some records are damaged must not stop the others for good; nor must a newer agent's news."""
    if frames.is_unknown(text):
        return None
    try:
        return frames.decode_loose_usage(text)
    except msgspec.DecodeError:
        log.warning("an agent sent a bad frame", extra={"error": str(error)})
        raise LinkClosedError(frames.CLOSE_BAD_FRAME) from error


class AgentLinkApp:
    """The ASGI application; one hub per process."""

    def __init__(self) -> None:
        self._hub: LinkHub | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if (await receive())["type"] != "websocket.connect":
            return
        await send({"type": "websocket.accept"})
        try:
            node, refusal = await in_database_thread(_node_of, _bearer_token(scope))
        except DatabaseError:
            await send({"type": "websocket.close", "code": CLOSE_TRY_LATER})
            return
        if node is None:
            await send({"type": "websocket.close", "code": refusal})
            return
        await AgentLink(node, self._running_hub(), receive, send).run()

    async def close(self) -> None:
        if self._hub is not None:
            await self._hub.close()
            self._hub = None

    def _running_hub(self) -> LinkHub:
        self._hub = self._hub or LinkHub()
        self._hub.ensure_running()
        return self._hub


def _node_of(token: str) -> tuple[Node | None, int]:
    """Whose token it is, or with which code the link ends."""
    node = find_node_by_token(token)
    if node is None and was_removed(token):
        return None, frames.CLOSE_REMOVED
    return node, frames.CLOSE_UNAUTHORISED


def _bearer_token(scope: Message) -> str:
    value = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
