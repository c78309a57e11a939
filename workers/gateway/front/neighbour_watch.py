"""Whether another node's gateway still is there while what it was asked for lets itself be waited for.

An answer may take as long as it likes. A node that is cut off, or whose machine stands still, closes no connection
either: it is known by not answering its /health meanwhile, twice in a row.
"""

import asyncio
import time

from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.heads import AnswerHead
from workers.gateway.http.upstream import UpstreamError

LOOK_AFTER_S = 2.0
_ANSWER_WITHIN_S = 2.0
_MOST_SILENCES = 2
# An answer that has begun can be had from nobody else: about a minute, in which a line may be mended.
_MOST_ONCE_BEGUN = 15
# So long others are asked first.
_REMEMBERED_S = 10.0


class Silences:
    """Which gateways were silent a moment ago, by address; bounded by the number of nodes."""

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}

    def note(self, pool: EnginePool) -> None:
        self._until[pool.authority] = time.monotonic() + _REMEMBERED_S

    def last(self, pools: list[EnginePool]) -> list[EnginePool]:
        """The same, those that were silent at the end."""
        now = time.monotonic()
        return sorted(pools, key=lambda pool: self._until.get(pool.authority, 0.0) > now) if self._until else pools


async def is_there(pool: EnginePool) -> bool:
    """Whether it answers anything at all, over a connection of its own."""
    reader = _AnyAnswer()
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            connection = await pool.connect()
            try:
                connection.ask(b"GET /health HTTP/1.1\r\nhost: %b\r\n\r\n" % pool.authority, reader)
                return await reader.came
            finally:
                connection.abandon()
    except (TimeoutError, UpstreamError):
        return False


async def until_lost(pool: EnginePool, heard: "Heard") -> None:
    """Returns once it has been silent for long; is cancelled when that is of no interest any more."""
    silences, seen = 0, heard.count
    while silences < (_MOST_ONCE_BEGUN if heard.count else _MOST_SILENCES):
        await asyncio.sleep(LOOK_AFTER_S)
        if heard.count != seen:
            silences, seen = 0, heard.count
        else:
            silences = 0 if await is_there(pool) else silences + 1


class Heard:
    """How often something came."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class _AnyAnswer:
    def __init__(self) -> None:
        self.came: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def answer_began(self, head: AnswerHead) -> None:  # noqa: ARG002
        self._came(is_answer=True)

    def answer_received(self, pieces: list[bytes]) -> None: ...

    def answer_ended(self, pieces: list[bytes]) -> None: ...

    def answer_failed(self, error: UpstreamError) -> None:  # noqa: ARG002
        self._came(is_answer=False)

    def _came(self, *, is_answer: bool) -> None:
        if not self.came.done():
            self.came.set_result(is_answer)
