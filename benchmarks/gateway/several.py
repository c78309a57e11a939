"""`python -m benchmarks.gateway.several`: a gateway of one process and of two, for two deployments.

`stay`: a connection asks one model. `change`: each request of a connection may ask the other one, so that with two
processes about half of them are passed. First all processes of the gateway have one core, and engines and load the
other: what a request costs. Then each process has a core, with an engine and half of the load beside it: how many
there are in a second. On a machine of two cores engines and load take their part of the second figure.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.gateway import processes, wire
from benchmarks.gateway.loads import HERE, Figures
from benchmarks.gateway.peers import built
from workers.contracts.example import build_snapshot
from workers.contracts.snapshot import Route, RouteTarget

MODELS = ("model-a", "model-b")
CONNECTIONS = 16
CORES = (0, 1)
START_TIMEOUT_S = 60


@dataclass(frozen=True)
class Case:
    processes: int
    is_spread: bool


@dataclass(frozen=True)
class Outcome:
    requests_per_s: float
    cpu_us: float
    failed: int


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway.several", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--port-base", type=int, default=28200)
    arguments = parser.parse_args()
    cases = [Case(count, is_spread) for is_spread in (False, True) for count in (1, 2)]
    for number in range(arguments.rounds):
        for case in cases:
            with _running(case, arguments.port_base) as (gateway, port):
                for word, names in (("stay", MODELS), ("change", (",".join(MODELS),) * 2)):
                    _load(case, gateway, port, names, 0.7)
                    outcome = _load(case, gateway, port, names, arguments.seconds)
                    where = "a core each" if case.is_spread else "one core"
                    print(
                        f"round {number + 1}  {case.processes} processes on {where:12} {word:7}"
                        f" {outcome.requests_per_s:8.0f} requests/s  {outcome.cpu_us:6.1f} us CPU each"
                        f"  {outcome.failed} failed",
                        flush=True,
                    )


def _load(case: Case, gateway: int, port: int, names: tuple[str, ...], seconds: float) -> Outcome:
    """Two generators at once, each with half of the connections."""
    before_s = processes.cpu_s(gateway)
    numbers = (CONNECTIONS, seconds, 0, 64, 0, 0, 0)
    running = [
        subprocess.Popen(
            [built(HERE / "load.c"), str(port), name, wire.API_KEY, *map(str, numbers)],
            stdout=subprocess.PIPE,
            preexec_fn=processes.settle_on(place if case.is_spread else CORES[1]),  # noqa: PLW1509 - no threads here
        )
        for place, name in zip(CORES, names, strict=True)
    ]
    told = [msgspec.json.decode(one.communicate(timeout=60)[0], type=Figures) for one in running]
    answered = sum(figures.answered for figures in told)
    cpu_us = (processes.cpu_s(gateway) - before_s) * 1e6 / max(answered, 1)
    wall_s = max(figures.wall_s for figures in told)
    return Outcome(answered / wall_s, cpu_us, sum(figures.failed for figures in told))


@contextmanager
def _running(case: Case, port_base: int) -> Iterator[tuple[int, int]]:
    """The pid of the gateway, and its port."""
    port, admin_port = port_base, port_base + 1
    engine_ports = [port_base + 2, port_base + 3]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gateway-bench-")))
        for place, (name, engine_port) in enumerate(zip(MODELS, engine_ports, strict=True)):
            command: list[str | Path] = [built(HERE / "mock_engine.c"), name, str(engine_port)]
            _start(stack, command, CORES[place] if case.is_spread else CORES[1], directory / f"{name}.log")
        file = _write_snapshot(directory, engine_ports)
        command = [sys.executable, "-m", "workers.gateway", "--snapshot", file, "--spool", directory / "spool"]
        command += ["--port", str(port), "--admin-port", str(admin_port), "--processes", str(case.processes)]
        gateway = _start(stack, [*command, "--grace-s", "0.5"], CORES[0], directory / "gateway.log")
        _wait_until_ready(admin_port)
        if case.is_spread:
            _spread(gateway)
        yield gateway, port


def _start(stack: ExitStack, command: list[str | Path], core: int, log: Path) -> int:
    process = processes.start(command, core=core, log=log, environment={"TOKENYARD_VALKEY_URL": ""})
    stack.callback(processes.stop, process)
    return process.pid


def _write_snapshot(directory: Path, engine_ports: list[int]) -> Path:
    versions = [(name, 100, [f"http://127.0.0.1:{port}"]) for name, port in zip(MODELS, engine_ports, strict=True)]
    snapshot = build_snapshot(model=MODELS[0], versions=versions, keys={"gold": wire.API_KEY}, now=0.0)
    routes = [
        Route(public_name=name, targets=[RouteTarget(version_id=version.version_id, weight=1)])
        for name, version in zip(MODELS, snapshot.versions, strict=True)
    ]
    endpoints = [msgspec.structs.replace(endpoint, max_running_requests=4096) for endpoint in snapshot.endpoints]
    file = directory / "snapshot.json"
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(snapshot, routes=routes, endpoints=endpoints)))
    return file


def _wait_until_ready(admin_port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/readyz", timeout=2).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the gateway did not get ready")


def _spread(gateway: int) -> None:
    """The processes of one gateway get a core each; one alone stays where it is."""
    children = Path(f"/proc/{gateway}/task/{gateway}/children").read_text().split()
    for core, pid in zip(CORES, children, strict=False):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})


if __name__ == "__main__":
    main()
