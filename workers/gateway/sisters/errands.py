"""Items of batches whose model is a sister's: asked for there, and answered over a pair of sockets.

One process runs all batches, since they are in one store; each item must wait in the queue of its model all the same.
What comes back is the answer and the record that goes with it, which the runner keeps together. An owner that dies in
between leaves neither, and the item is asked for again.
"""

import asyncio
import logging
import socket
from collections.abc import Callable

import msgspec

from workers.gateway.batches.errands import Calling, Deputy, Errands, ItemErrand, Reply, refused
from workers.gateway.batches.shapes import Batch, Item
from workers.gateway.errors import key_invalid, owner_unavailable
from workers.gateway.front.surface import Surface
from workers.gateway.http.connections import Connections
from workers.gateway.http.turns import Turn
from workers.gateway.sisters.questions import model_in
from workers.gateway.snapshots.directory import Grant

logger = logging.getLogger(__name__)


_encode = msgspec.msgpack.Encoder().encode
_decode_errand = msgspec.msgpack.Decoder(ItemErrand).decode
_decode_reply = msgspec.msgpack.Decoder(Reply).decode


class SharedErrands(Deputy):
    """`sister_of` is None of what is to be asked for here. `send` may find that the owner is not there."""

    def __init__(
        self,
        own: Errands,
        sister_of: Callable[[str], int | None],
        send: Callable[[int, bytes, socket.socket], bool],
    ) -> None:
        super().__init__(own)
        self._sister_of = sister_of
        self._send = send

    def begin(self, batch: Batch, item: Item, grant: Grant) -> Calling:
        owner = self._sister_of(model_in(item.body))
        return self._own.begin(batch, item, grant) if owner is None else self._ask_sister(owner, batch, item)

    def _ask_sister(self, owner: int, batch: Batch, item: Item) -> Calling:
        ours, theirs = socket.socketpair()
        with theirs:
            is_sent = self._send(owner, _encode(ItemErrand(batch, item)), theirs)
        if not is_sent:
            ours.close()
        return _SistersCall(ours if is_sent else None)


class _SistersCall:
    """`connection` is None where the owner could not be asked."""

    def __init__(self, connection: socket.socket | None) -> None:
        self._connection = connection
        self._writer: asyncio.StreamWriter | None = None
        self._is_withdrawn = False

    async def reply(self) -> Reply:
        if self._connection is None:
            return refused(owner_unavailable())
        reader, self._writer = await asyncio.open_unix_connection(sock=self._connection)
        try:
            content = await reader.read(-1)
        except OSError:
            content = b""
        finally:
            self._writer.close()
        if content:
            return _decode_reply(content)
        return Reply(None, None) if self._is_withdrawn else refused(owner_unavailable())

    def withdraw(self) -> None:
        """The owner sees the end of it, and still says what was used."""
        self._is_withdrawn = True
        if self._writer is not None:
            self._writer.write_eof()


class ErrandTaker:
    """The owner's side."""

    def __init__(self, surface: Surface, turn: Turn, connections: Connections, unix_time: Callable[[], float]) -> None:
        self._errands = Errands(surface, turn, connections, unix_time)
        self._running: set[asyncio.Task[None]] = set()

    def take(self, errand: bytes, descriptor: socket.socket) -> None:
        task = asyncio.create_task(self._run(_decode_errand(errand), descriptor))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, errand: ItemErrand, descriptor: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=descriptor)
        try:
            writer.write(_encode(await self._reply(errand, reader)))
            await writer.drain()
        except OSError as error:
            logger.info("who asked for an item of %s is gone: %s", errand.batch.batch_id, error)
        finally:
            writer.close()

    async def _reply(self, errand: ItemErrand, reader: asyncio.StreamReader) -> Reply:
        grant = self._errands.grant_of(errand.batch)
        if grant is None:
            return refused(key_invalid())
        call = self._errands.begin(errand.batch, errand.item, grant)
        withdrawing = asyncio.create_task(_withdraw_at_end(reader, call))
        try:
            return await call.reply()
        finally:
            withdrawing.cancel()


async def _withdraw_at_end(reader: asyncio.StreamReader, call: Calling) -> None:
    await reader.read(-1)
    call.withdraw()
