"""What other nodes' gateways say to the same question: asked all together, and waited for no longer than a moment."""

import asyncio
from collections.abc import Sequence

import msgspec

from workers.gateway.batches.listing import Part
from workers.gateway.front.forwarding import message_for
from workers.gateway.http.call import Call
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.heads import AnswerHead, Headers
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.http.upstream import UpstreamError
from workers.gateway.snapshots.networks import peer_of

WAIT_S = 3.0
MAX_AT_ONCE = 32
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_decode_part = msgspec.json.Decoder(Part).decode


class Asking:
    """One question to one gateway; `answer` has its status and body."""

    is_client_stalled = False

    def __init__(self) -> None:
        self.answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._call: Call | None = None
        self._status = 0
        self._pieces: list[bytes] = []
        self._left_bytes = MAX_ANSWER_BYTES

    async def run(self, pool: EnginePool, message: bytes) -> tuple[int, bytes]:
        """Raises UpstreamError and TimeoutError."""
        self._call = Call(pool, message, self)
        self._call.begin()
        try:
            return await self.answer
        finally:
            self._call.abandon()

    def give_up(self, why: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(UpstreamError(why))

    def answer_began(self, head: AnswerHead) -> None:
        self._status = head.status

    def answer_received(self, pieces: list[bytes]) -> None:
        self._pieces += pieces
        self._left_bytes -= sum(map(len, pieces))
        if self._left_bytes < 0:
            self.give_up("its answer does not end")

    def answer_ended(self, pieces: list[bytes]) -> None:
        if self._call is not None:
            self._call.ended()
        if not self.answer.done():
            self.answer.set_result((self._status, b"".join(self._pieces + pieces)))

    def answer_failed(self, error: UpstreamError) -> None:
        if self._call is None or self._status or self._call.failed():
            self.give_up(str(error))


async def gather(
    client: ClientConnection, request: HttpRequest, pools: Sequence[EnginePool], headers: Headers
) -> list[Part | None]:
    """None of a node that did not answer, or not with a list."""
    address, turns = peer_of(client.transport), asyncio.Semaphore(MAX_AT_ONCE)

    async def ask(pool: EnginePool) -> Part | None:
        try:
            async with turns:
                status, body = await Asking().run(pool, message_for(request, pool.authority, address, headers))
            return _decode_part(body) if status == 200 else None  # noqa: PLR2004 - HTTP
        except (UpstreamError, msgspec.DecodeError):
            return None

    return await _within(WAIT_S, [asyncio.create_task(ask(pool)) for pool in pools])


async def _within(limit_s: float, tasks: Sequence["asyncio.Task[Part | None]"]) -> list[Part | None]:
    if tasks:
        await asyncio.wait(tasks, timeout=limit_s)
    parts = [task.result() if task.done() else None for task in tasks]
    for task in tasks:
        task.cancel()
    return parts


async def ask_one(
    client: ClientConnection, request: HttpRequest, pool: EnginePool, path: bytes, headers: Headers
) -> tuple[int, bytes]:
    """What it says of what is at that path. Raises UpstreamError."""
    message = message_for(request, pool.authority, peer_of(client.transport), headers, target=path)
    try:
        async with asyncio.timeout(WAIT_S):
            return await Asking().run(pool, message)
    except TimeoutError as error:
        raise UpstreamError("no answer in time") from error
