"""What the gateway's Python costs without sockets: `python -m benchmarks.gateway.python_path`.

One request in one read, its answer in one read, and the chunks of a stream, through the gateway's own classes with
transports that swallow what is written. The least of many rounds is printed, as other work only ever adds.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import uvloop

from benchmarks.gateway import wire
from workers.contracts.example import build_snapshot
from workers.contracts.settlement import Origin
from workers.gateway.driving.driver import Driver
from workers.gateway.front.surface import Surface
from workers.gateway.http.connections import Connections
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.server import ClientConnection
from workers.gateway.http.turns import Turn
from workers.gateway.http.upstream import UpstreamConnection
from workers.gateway.limits.admission import Limits
from workers.gateway.observing.metrics import RequestMetrics
from workers.gateway.records.journal import Journal
from workers.gateway.records.metering import Meter
from workers.gateway.records.spool import Spool
from workers.gateway.snapshots.directory import Directory
from workers.scheduling.interface import SchedulerConfig
from workers.scheduling.scheduler import Scheduler

REQUESTS_PER_ROUND = 300
CHUNKS_PER_STREAM = 200


class SilentTransport:
    """Takes everything and keeps the last."""

    def __init__(self) -> None:
        self.written = b""
        self.writes = 0

    def write(self, piece: bytes) -> None:
        self.written = piece
        self.writes += 1

    def is_closing(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_arguments, **_named: None


class PythonPath:
    """One client connection and one engine connection with the whole gateway between them."""

    def __init__(self, spool: Path) -> None:
        randomness = random.Random(1)
        snapshot = build_snapshot(
            model=wire.MODEL,
            versions=[(wire.MODEL, 100, [f"http://127.0.0.1:{port}" for port in range(1, 5)])],
            keys={"gold": wire.API_KEY},
            now=time.time(),
        )
        origin = Origin(gateway_id="g", boot_id="boot", node_id="n")
        journal = Journal(spool, origin, time.monotonic)
        self._turn = Turn(Spool(spool, "boot", journal), lambda _end: None, lambda: 0.0)
        metrics = RequestMetrics()
        connections = Connections()
        limits = Limits(monotonic=time.monotonic, unix_time=time.time)
        driver = Driver(Scheduler(SchedulerConfig()), time.monotonic, self._turn, time.time)
        meter = Meter(
            self._turn,
            origin=origin,
            monotonic=time.monotonic,
            unix_time=time.time,
            randomness=randomness,
            observers=[metrics.observe],
            settled=limits.settled,
        )
        surface = Surface(
            driver=driver,
            meter=meter,
            limits=limits,
            journal=journal,
            connections=connections,
            monotonic=time.monotonic,
            unix_time=time.time,
            randomness=randomness,
            count_unrecorded=metrics.count_unrecorded,
        )
        surface.directory = Directory(snapshot)
        driver.set_endpoints(snapshot.endpoints)
        self.client = ClientConnection(surface.handle, connections, self._turn)
        self.client_side = SilentTransport()
        self.client.connection_made(cast("Any", self.client_side))
        self._engines = [self._connect(engine.pool) for engine in driver.engines]

    def _connect(self, pool: EnginePool) -> tuple[SilentTransport, UpstreamConnection]:
        side, connection = SilentTransport(), UpstreamConnection(pool)
        connection.connection_made(cast("Any", side))
        pool.put_back(connection)
        return side, connection

    def _asked(self) -> UpstreamConnection:
        """Whichever engine was written to since the last time."""
        for side, connection in self._engines:
            if side.writes:
                side.writes = 0
                return connection
        raise RuntimeError(f"no engine was asked; the client got {self.client_side.written!r}")

    def exchange(self, request: bytes, answer: list[bytes]) -> None:
        self.client.data_received(request)
        self._turn.end()
        engine = self._asked()
        for part in answer:
            engine.data_received(part)
            self._turn.end()


def best_us(round_of: Callable[[], None], per_round: int, rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        began_at = time.perf_counter()
        round_of()
        best = min(best, time.perf_counter() - began_at)
    return best / per_round * 1e6


def measure(path: PythonPath, rounds: int) -> dict[str, float]:
    """Microseconds each."""
    request, answer = wire.chat_request(), [wire.whole_answer()]
    ask, head, end = wire.chat_request(is_stream=True), wire.stream_head(), wire.stream_end(CHUNKS_PER_STREAM)
    chunks = [wire.stream_chunk(number) for number in range(CHUNKS_PER_STREAM)]
    burst = [head + b"".join(chunks) + end]

    def requests() -> None:
        for _ in range(REQUESTS_PER_ROUND):
            path.exchange(request, answer)

    return {
        "request": best_us(requests, REQUESTS_PER_ROUND, rounds),
        "chunk": best_us(lambda: path.exchange(ask, [head, *chunks, end]), CHUNKS_PER_STREAM, rounds * 3),
        "chunk in a burst": best_us(lambda: path.exchange(ask, burst), CHUNKS_PER_STREAM, rounds * 3),
    }


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for name, microseconds in measure(PythonPath(Path(directory)), rounds).items():
            print(f"{name:<18}{microseconds:8.2f} µs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway.python_path", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    uvloop.run(main(parser.parse_args().rounds))
