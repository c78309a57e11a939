"""What the parent and a process of a gateway tell each other, over one stream: four bytes of length, then msgpack."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

import msgspec
from msgspec import Struct

from workers.contracts.decisions import DecisionFile
from workers.contracts.telemetry import GatewayReport
from workers.gateway.limits.authority import Ask, Reply

logger = logging.getLogger(__name__)

_LENGTH_BYTES = 4


class Owners(Struct, tag=True, frozen=True):
    """Parent → process, before it serves and with each change: version → number of its owner."""

    by_version: dict[str, int]


class Up(Struct, tag=True, frozen=True):
    """Parent → process: numbers of those that read their inboxes."""

    numbers: list[int]


class Succeeded(Struct, tag=True, frozen=True):
    """Parent → process: another gateway accepts connections on our sockets."""


class WantPage(Struct, tag=True, frozen=True):
    """Parent → process: what its admin page at `path` would say."""

    question: int
    path: str


class Granted(Struct, tag=True, frozen=True):
    """Parent → process, in answer to AskLimits."""

    question: int
    reply: Reply


class Holds(Struct, frozen=True):
    """What counts against bounds of the whole gateway.

    `by_key` has the keys with many connections; `waiting` are requests that wait for an engine, but not for batches.
    By tenant: `queued` are requests, `arriving` files and their bytes. `spent` are tokens and picodollars by workflow.
    """

    connections: int = 0
    by_key: dict[str, int] = {}
    waiting: int = 0
    queued: dict[str, int] = {}
    arriving: dict[str, tuple[int, int]] = {}
    spent: dict[str, tuple[int, int]] = {}


class Ready(Struct, tag=True, frozen=True):
    """Process → parent: it accepts connections."""


class Told(Struct, tag=True, frozen=True):
    """Process → parent, once a second."""

    report: GatewayReport
    news: DecisionFile | None = None
    holds: Holds = Holds()


class Elsewhere(Struct, tag=True, frozen=True):
    """Parent → process, once a second: what the others hold together."""

    holds: Holds


class Page(Struct, tag=True, frozen=True):
    """Process → parent, in answer to WantPage."""

    question: int
    status: int
    kind: str
    body: str


class AskLimits(Struct, tag=True, frozen=True):
    """Process → parent, where there is no Valkey to ask."""

    question: int
    holder: str
    asks: list[Ask]


Message = Owners | Up | Succeeded | WantPage | Granted | Elsewhere | Ready | Told | Page | AskLimits

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Message).decode


class Control:
    """One end. `hear` gets each message of the other; `run` returns when there is no other end any more."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hear: Callable[[Message], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._hear = hear

    def tell(self, message: Message) -> None:
        if not self._writer.is_closing():
            content = _encode(message)
            self._writer.write(len(content).to_bytes(_LENGTH_BYTES, "big") + content)

    async def run(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                length = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), "big")
                self._take(_decode(await self._reader.readexactly(length)))

    def _take(self, message: Message) -> None:
        """One that fails does not keep the others from being heard."""
        try:
            self._hear(message)
        except Exception:
            logger.exception("%s could not be taken", type(message).__name__)

    def close(self) -> None:
        self._writer.close()


async def open_control(end: socket.socket, hear: Callable[[Message], None]) -> Control:
    reader, writer = await asyncio.open_unix_connection(sock=end)
    return Control(reader, writer, hear)


class Questions:
    """Those that have no answer yet."""

    def __init__(self) -> None:
        self._open: dict[int, asyncio.Future[Message]] = {}
        self._last = 0

    async def ask(self, tell: Callable[[int], None], within_s: float) -> Message:
        """`tell` sends it under its number. Raises TimeoutError."""
        self._last += 1
        number = self._last
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._open[number] = answer
        try:
            tell(number)
            async with asyncio.timeout(within_s):
                return await answer
        finally:
            del self._open[number]

    def answered(self, number: int, message: Message) -> None:
        answer = self._open.get(number)
        if answer is not None and not answer.done():
            answer.set_result(message)
