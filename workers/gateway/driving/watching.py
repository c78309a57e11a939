"""Reads what engines say of themselves: the scheduler takes it for what it is worth, and for how old it is."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable

from workers.engines.interface import EngineReading
from workers.engines.llamacpp.metrics import read_llamacpp_metrics
from workers.engines.vllm.metrics import read_vllm_metrics
from workers.gateway.attempts.engines import Engine
from workers.gateway.driving.driver import Driver
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.heads import AnswerHead
from workers.gateway.http.turns import Turn
from workers.gateway.http.upstream import UpstreamConnection, UpstreamError

LOOK_EACH_S = 0.05
BUSY_EACH_S = 0.25
IDLE_EACH_S = 2.0
ANSWER_WITHIN_S = 1.0
_OK = 200


class Watch:
    """An engine, and the question to it that has no answer yet."""

    __slots__ = ("asked_at", "connecting", "connection", "engine", "pool")

    def __init__(self, engine: Engine, pool: EnginePool) -> None:
        self.engine = engine
        self.pool = pool
        self.asked_at = -math.inf
        self.connecting: asyncio.Task[None] | None = None
        self.connection: UpstreamConnection | None = None

    @property
    def is_asking(self) -> bool:
        return self.connecting is not None or self.connection is not None

    def abandon(self) -> None:
        connecting, self.connecting = self.connecting, None
        if connecting is not None:
            connecting.cancel()
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.abandon()


class EngineWatcher:
    """One question at a time to each engine, each with a time limit; an engine that does not answer is not idle.

    It wants to `look` each LOOK_EACH_S. Each look asks its share of the engines: what all of them say at once would be
    read between two events of a stream.
    """

    def __init__(self, driver: Driver, monotonic: Callable[[], float], turn: Turn) -> None:
        self._driver = driver
        self._monotonic = monotonic
        self._turn = turn
        self._watches: dict[int, Watch] = {}
        self._running: Counter[str] = Counter()
        self._counted_at = -math.inf

    def look(self) -> None:
        now = self._monotonic()
        if now - self._counted_at >= BUSY_EACH_S:
            self._counted_at = now
            self._follow(self._driver.engines)
            self._running = self._driver.count_running()
        due = [watch for watch in self._watches.values() if self._is_due(watch, now)]
        share = math.ceil(len(self._watches) * LOOK_EACH_S / BUSY_EACH_S)
        for watch in sorted(due, key=lambda watch: watch.asked_at)[:share]:
            self._ask(watch, now)

    def close(self) -> None:
        self._follow([])

    def _follow(self, engines: list[Engine]) -> None:
        known = {id(engine): engine for engine in engines}
        for gone in [key for key in self._watches if key not in known]:
            watch = self._watches.pop(gone)
            watch.abandon()
            watch.pool.close()
        for key, engine in known.items():
            if key not in self._watches:
                self._watches[key] = Watch(engine, EnginePool(engine.endpoint.base_url, self._turn))

    def _is_due(self, watch: Watch, now: float) -> bool:
        """An answer that does not come is given up here."""
        waited_s = now - watch.asked_at
        if watch.is_asking and waited_s > ANSWER_WITHIN_S:
            watch.abandon()
        is_busy = self._running[watch.engine.endpoint.endpoint_id] > 0
        return not watch.is_asking and waited_s >= (BUSY_EACH_S if is_busy else IDLE_EACH_S)

    def _ask(self, watch: Watch, now: float) -> None:
        watch.asked_at = now
        connection = watch.pool.take_idle()
        if connection is not None:
            self._ask_by(watch, connection)
        else:
            watch.connecting = asyncio.create_task(self._connect(watch))

    async def _connect(self, watch: Watch) -> None:
        try:
            connection = await watch.pool.connect()
        except UpstreamError:
            watch.connecting = None
            return
        watch.connecting = None
        self._ask_by(watch, connection)

    def _ask_by(self, watch: Watch, connection: UpstreamConnection) -> None:
        watch.connection = connection
        connection.ask(_get(watch.pool, b"/metrics"), _WholeAnswer(lambda body: self._answered(watch, body)))

    def _answered(self, watch: Watch, body: bytes | UpstreamError) -> None:
        watch.connection = None
        if isinstance(body, bytes):
            reading = read_metrics(watch.engine.endpoint.engine, body.decode(errors="replace"))
            self._driver.reported(watch.engine, reading, watch.asked_at)


def read_metrics(engine: str, text: str) -> EngineReading:
    return read_llamacpp_metrics(text) if engine == "llamacpp" else read_vllm_metrics(text)


def _get(pool: EnginePool, path: bytes) -> bytes:
    return b"GET %b HTTP/1.1\r\nhost: %b\r\n\r\n" % (path, pool.authority)


async def ask(pool: EnginePool, request: bytes) -> bytes:
    """The body of a good answer. Raises UpstreamError; the caller sets the time limit."""
    connection = pool.take_idle() or await pool.connect()
    answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    connection.ask(request, _WholeAnswer(lambda body: _resolve(answered, body)))
    try:
        return await answered
    except asyncio.CancelledError:
        connection.abandon()
        raise


def _resolve(answered: asyncio.Future[bytes], body: bytes | UpstreamError) -> None:
    if answered.done():
        return
    if isinstance(body, UpstreamError):
        answered.set_exception(body)
    else:
        answered.set_result(body)


class _WholeAnswer:
    """`take` gets the body of a good answer, or why there is none, once."""

    def __init__(self, take: Callable[[bytes | UpstreamError], None]) -> None:
        self._take = take
        self._pieces: list[bytes] = []
        self._status = 0

    def answer_began(self, head: AnswerHead) -> None:
        self._status = head.status

    def answer_received(self, pieces: list[bytes]) -> None:
        self._pieces += pieces

    def answer_ended(self, pieces: list[bytes]) -> None:
        is_good = self._status == _OK
        self._take(b"".join(self._pieces + pieces) if is_good else UpstreamError(f"status {self._status}"))

    def answer_failed(self, error: UpstreamError) -> None:
        self._take(error)
