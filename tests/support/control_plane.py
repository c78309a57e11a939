"""A control plane's end of the agent's link: a real websocket server that speaks workers/contracts/link.py."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from workers.contracts.desired import DesiredState
from workers.contracts.link import (
    CLOSE_REMOVED,
    CLOSE_UNAUTHORISED,
    DesiredPush,
    FromAgent,
    Hello,
    SnapshotPush,
    Telemetry,
    UsageAck,
    UsageBatch,
    Welcome,
    decode_from_agent,
)
from workers.contracts.signing import public_key_text, sign
from workers.contracts.snapshot import Snapshot
from workers.contracts.telemetry import NodeTelemetry
from workers.contracts.usage import UsageRecord

TOKEN = "ty-agent-token"


class ControlPlane:
    """`desired` and `snapshot` are pushed until telemetry shows that they are held; records are kept once each.

    `loses_acks` stores batches and says nothing, `loses_pushes` sends none.
    """

    def __init__(self, node_id: str, key: Ed25519PrivateKey) -> None:
        self.node_id = node_id
        self.key = key
        self.desired: DesiredState | None = None
        self.snapshot: Snapshot | None = None
        self.hellos: list[Hello] = []
        self.telemetry: list[NodeTelemetry] = []
        self.records: dict[str, UsageRecord] = {}
        self.duplicates = 0
        self.refused_tokens: list[str] = []
        self.loses_acks = False
        self.loses_pushes = False
        self.has_removed_the_node = False
        self.port = 0
        self._server: Server | None = None
        self._connections: set[ServerConnection] = set()

    @property
    def latest(self) -> NodeTelemetry | None:
        return self.telemetry[-1] if self.telemetry else None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws/agent/"

    async def open(self) -> None:
        """On the port it had before, if it had one."""
        self._server = await serve(self._serve, "127.0.0.1", self.port, max_size=None)
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def close(self) -> None:
        if self._server:
            self._server.close()
            await self._server.wait_closed()

    async def send(self, frame: Any) -> None:
        for connection in list(self._connections):
            with suppress(ConnectionClosed):
                await connection.send(msgspec.json.encode(frame).decode())

    async def send_text(self, text: str) -> None:
        for connection in list(self._connections):
            await connection.send(text)

    async def remove_the_node(self) -> None:
        self.has_removed_the_node = True
        for connection in list(self._connections):
            await connection.close(CLOSE_REMOVED)

    async def _serve(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        token = connection.request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token != TOKEN:
            self.refused_tokens.append(token)
            await connection.close(CLOSE_UNAUTHORISED)
            return
        if self.has_removed_the_node:
            await connection.close(CLOSE_REMOVED)
            return
        self._connections.add(connection)
        try:
            async for text in connection:
                await self._take(connection, decode_from_agent(text))
        except ConnectionClosed:
            pass
        finally:
            self._connections.discard(connection)

    async def _take(self, connection: ServerConnection, frame: FromAgent) -> None:
        match frame:
            case Hello():
                self.hellos.append(frame)
                await self._answer(connection, self._welcome())
            case Telemetry():
                self.telemetry.append(frame.body)
                await self._push_what_is_lacking(connection, frame.body)
            case UsageBatch():
                await self._store(connection, frame)

    def _welcome(self) -> Welcome:
        key = public_key_text(self.key)
        return Welcome(node_id=self.node_id, node_name="node", snapshot_public_key=key, server_time=0.0)

    async def _push_what_is_lacking(self, connection: ServerConnection, held: NodeTelemetry) -> None:
        if self.loses_pushes:
            return
        if self.desired and held.desired_generation != self.desired.generation:
            await self._answer(connection, DesiredPush(body=self.desired))
        if self.snapshot and held.snapshot_generation != self.snapshot.generation:
            envelope = msgspec.Raw(sign(self.snapshot, self.key))
            await self._answer(connection, SnapshotPush(generation=self.snapshot.generation, envelope=envelope))

    async def _store(self, connection: ServerConnection, batch: UsageBatch) -> None:
        new = [record for record in batch.records if record.record_id not in self.records]
        self.records |= {record.record_id: record for record in new}
        duplicates = len(batch.records) - len(new)
        self.duplicates += duplicates
        if not self.loses_acks:
            await self._answer(connection, UsageAck(batch_id=batch.batch_id, stored=len(new), duplicate=duplicates))

    async def _answer(self, connection: ServerConnection, frame: Any) -> None:
        with suppress(ConnectionClosed):
            await connection.send(msgspec.json.encode(frame).decode())


@asynccontextmanager
async def control_plane(node_id: str = "node-1") -> AsyncIterator[ControlPlane]:
    plane = ControlPlane(node_id, Ed25519PrivateKey.generate())
    await plane.open()
    try:
        yield plane
    finally:
        await plane.close()


async def eventually(holds: Callable[[], Any], timeout_s: float = 15) -> Any:
    """The first true value of `holds`."""
    async with asyncio.timeout(timeout_s):
        while not (value := holds()):  # noqa: ASYNC110 - what is waited for happens in other processes
            await asyncio.sleep(0.02)
        return value
