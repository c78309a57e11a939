"""Reads what engines say of themselves: the scheduler takes it for what it is worth, and for how old it is."""

import asyncio
import logging
from collections.abc import Callable

from msgspec import Struct

from workers.engines.interface import EngineReading
from workers.engines.llamacpp.metrics import read_llamacpp_metrics
from workers.engines.vllm.metrics import read_vllm_metrics
from workers.gateway.driver import Driver
from workers.gateway.engines import Engine
from workers.gateway.heads import AnswerHead
from workers.gateway.turns import Turn
from workers.gateway.upstream import EnginePool, UpstreamError

logger = logging.getLogger(__name__)

LOOK_EACH_S = 0.125
BUSY_EACH_S = 0.25
IDLE_EACH_S = 2.0
ANSWER_WITHIN_S = 1.0
_OK = 200


class Watch(Struct, eq=False):
    engine: Engine
    pool: EnginePool
    asked_at: float = 0.0
    asking: asyncio.Task[None] | None = None


class EngineWatcher:
    """One question at a time to each engine, each with a time limit; an engine that does not answer is not idle."""

    def __init__(self, driver: Driver, monotonic: Callable[[], float], turn: Turn) -> None:
        self._driver = driver
        self._monotonic = monotonic
        self._turn = turn
        self._watches: dict[int, Watch] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EACH_S)
            try:
                self.look()
            except Exception:
                logger.exception("a look at the engines failed")

    def look(self) -> None:
        now = self._monotonic()
        self._follow(self._driver.engines)
        running = self._driver.count_running()
        for watch in self._watches.values():
            each_s = BUSY_EACH_S if running[watch.engine.endpoint.endpoint_id] else IDLE_EACH_S
            if watch.asking is None and now - watch.asked_at >= each_s:
                watch.asked_at = now
                watch.asking = asyncio.create_task(self._ask(watch))

    def close(self) -> None:
        self._follow([])

    def _follow(self, engines: list[Engine]) -> None:
        known = {id(engine): engine for engine in engines}
        for gone in [key for key in self._watches if key not in known]:
            watch = self._watches.pop(gone)
            watch.pool.close()
            if watch.asking is not None:
                watch.asking.cancel()
        for key, engine in known.items():
            if key not in self._watches:
                self._watches[key] = Watch(engine, EnginePool(engine.endpoint.base_url, self._turn))

    async def _ask(self, watch: Watch) -> None:
        asked_at = self._monotonic()
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                body = await fetch(watch.pool, b"/metrics")
        except (UpstreamError, TimeoutError):
            return
        finally:
            watch.asking = None
        reading = read_metrics(watch.engine.endpoint.engine, body.decode(errors="replace"))
        self._driver.reported(watch.engine, reading, asked_at)


def read_metrics(engine: str, text: str) -> EngineReading:
    return read_llamacpp_metrics(text) if engine == "llamacpp" else read_vllm_metrics(text)


async def fetch(pool: EnginePool, path: bytes) -> bytes:
    """As `ask` does."""
    return await ask(pool, b"GET %b HTTP/1.1\r\nhost: %b\r\n\r\n" % (path, pool.authority))


async def ask(pool: EnginePool, request: bytes) -> bytes:
    """The body of a good answer. Raises UpstreamError; the caller sets the time limit."""
    connection = pool.take_idle() or await pool.connect()
    reader = _WholeAnswer(asyncio.get_running_loop().create_future())
    connection.ask(request, reader)
    try:
        return await reader.body
    except asyncio.CancelledError:
        connection.abandon()
        raise


class _WholeAnswer:
    def __init__(self, body: asyncio.Future[bytes]) -> None:
        self.body = body
        self._pieces: list[bytes] = []
        self._status = 0

    def answer_began(self, head: AnswerHead) -> None:
        self._status = head.status

    def answer_received(self, pieces: list[bytes]) -> None:
        self._pieces += pieces

    def answer_ended(self, pieces: list[bytes]) -> None:
        if self.body.done():
            return
        if self._status == _OK:
            self.body.set_result(b"".join(self._pieces + pieces))
        else:
            self.body.set_exception(UpstreamError(f"status {self._status}"))

    def answer_failed(self, error: UpstreamError) -> None:
        if not self.body.done():
            self.body.set_exception(error)
