"""The loads that every target gets, and what is read of each."""

import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import asdict, replace

from benchmarks.gateway import wire
from benchmarks.gateway.peers import built
from benchmarks.gateway.processes import cpu_s, peak_rss_mb, rss_mb, settle_on

HERE = Path(__file__).parent
LOAD_TIMEOUT_S = 300


@dataclass(frozen=True)
class Load:
    """Seconds of load, or that many requests; events `interval_ms` apart, all at once if that is 0.

    With `identities` each request has a key, a user and a session of its own, of so many.
    """

    connections: int
    seconds: float = 0.0
    requests: int = 0
    tokens: int = 64
    is_stream: bool = False
    ramp_ms: int = 0
    interval_ms: float = 0.0
    lockstep: bool = False
    identities: int = 0


LOADS = {
    "requests": Load(connections=32, seconds=3),
    "single": Load(connections=1, seconds=1.5),
    "burst": Load(connections=16, seconds=2.5, is_stream=True),
    "paced": Load(connections=32, requests=64, is_stream=True, interval_ms=20, ramp_ms=20),
    "lockstep": Load(connections=512, requests=512, is_stream=True, interval_ms=20, lockstep=True),
}
# What a slow target gets instead, so that each load ends.
SLOW_LOADS = {
    "burst": Load(connections=4, seconds=2.5, is_stream=True),
    "lockstep": Load(connections=32, requests=32, is_stream=True, interval_ms=20, lockstep=True),
}
WARM_UP = (Load(connections=16, seconds=0.7), Load(connections=8, seconds=0.5, is_stream=True))

SLOW_STREAMS = Load(connections=2000, requests=2000, tokens=12, is_stream=True, interval_ms=500, ramp_ms=1000)
CONNECTIONS = Load(connections=10_000, requests=10_000)


class Figures(msgspec.Struct, frozen=True):
    """Of one load on one target, as load.c prints them and with the target's CPU time; times in microseconds."""

    answered: int
    failed: int
    first_failure: str
    wall_s: float
    events: int
    cpu_us: float = 0.0
    latency_p50_us: float = 0.0
    latency_p99_us: float = 0.0
    latency_max_us: float = 0.0


class Bench:
    """The load generator on its core, aimed at one port; `pid` is the process whose CPU time counts.

    `is_slow`: it gets fewer streams at once.
    """

    def __init__(self, port: int, pid: int, engine_port: int, *, core: int, is_slow: bool = False) -> None:
        self._port = port
        self.pid = pid
        self._engine_port = engine_port
        self._core = core
        self.is_slow = is_slow

    def run(self, load: Load) -> Figures:
        self._set_pace(load)
        before_s = cpu_s(self.pid)
        figures = self._generate(load)
        return replace(figures, cpu_us=(cpu_s(self.pid) - before_s) * 1e6)

    def _set_pace(self, load: Load) -> None:
        query = f"interval_us={int(load.interval_ms * 1000)}&lockstep={int(load.lockstep)}"
        url = f"http://127.0.0.1:{self._engine_port}/pace?{query}"
        urllib.request.urlopen(url, timeout=5).close()

    def _generate(self, load: Load) -> Figures:
        amounts = (load.connections, load.seconds, load.requests, load.tokens)
        numbers = (*amounts, int(load.is_stream), load.ramp_ms, load.identities)
        command: list[str | Path] = [
            built(HERE / "load.c"),
            str(self._port),
            wire.MODEL,
            wire.API_KEY,
            *map(str, numbers),
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            check=True,
            timeout=LOAD_TIMEOUT_S,
            preexec_fn=settle_on(self._core),
        )
        return msgspec.json.decode(done.stdout, type=Figures)


def measure(bench: Bench) -> dict[str, dict[str, object]]:
    """All of `LOADS` after a warm-up, and the peak of memory."""
    loads = LOADS | SLOW_LOADS if bench.is_slow else LOADS
    for load in WARM_UP:
        bench.run(load)
    found = {name: bench.run(load) for name, load in loads.items()}
    return {name: asdict(figures) for name, figures in found.items()} | {"memory": {"peak_mb": peak_rss_mb(bench.pid)}}


def measure_limits(bench: Bench, *, requests: int) -> dict[str, dict[str, object]]:
    """Many slow streams, many connections at once, and memory over many requests of many keys, users and sessions."""
    bench.run(WARM_UP[0])
    streams = bench.run(SLOW_STREAMS)
    after_streams_mb = peak_rss_mb(bench.pid)
    connections = bench.run(CONNECTIONS)
    return {
        "slow streams": asdict(streams) | {"peak_mb": after_streams_mb},
        "connections": asdict(connections),
        "memory over requests": {"mb": _memory_over(bench, requests)},
    }


def _memory_over(bench: Bench, requests: int) -> list[float]:
    found: list[float] = []
    for _ in range(5):
        bench.run(Load(connections=32, requests=requests // 5, identities=wire.IDENTITIES))
        found.append(round(rss_mb(bench.pid), 1))
    return found
