"""`python -m benchmarks.gateway`: gateways side by side in front of a mock engine, each alone on one core.

Every round starts each target afresh and gives it the same loads; the table has medians over rounds. Engines and load
share the other core, so `direct` shows what is theirs. CPU times compare well within one run and badly between runs.
"""

import argparse
import json
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

from benchmarks.gateway import processes, wire
from benchmarks.gateway.loads import HERE, Bench, measure, measure_limits
from benchmarks.gateway.peers import built
from benchmarks.gateway.report import Row, ratios, table
from benchmarks.gateway.targets import TARGETS, Ground

TARGET_CORE, LOAD_CORE = 0, 1
ENGINES = 4
START_TIMEOUT_S = 120


def main() -> None:
    arguments = _parse()
    names = arguments.targets.split(",")
    work: Callable[[Bench], Row] = measure
    if arguments.limits:
        work = lambda bench: measure_limits(bench, requests=arguments.requests)  # noqa: E731 - a choice of two
    rows: dict[str, list[Row]] = {name: [] for name in names}
    for number in range(arguments.rounds):
        for name in names:
            print(f"round {number + 1}: {name}", file=sys.stderr)
            with _running(name, arguments.port_base) as bench:
                rows[name].append(work(bench))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1))
    _print(rows, arguments)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--targets", default="tokenyard,vllm-router,envoy", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="writes all figures of all rounds here")
    parser.add_argument("--port-base", type=int, default=28000)
    parser.add_argument("--limits", action="store_true", help="slow streams, 10,000 connections and memory instead")
    parser.add_argument("--requests", type=int, default=200_000, help="how many for the memory with --limits")
    arguments = parser.parse_args()
    unknown = set(arguments.targets.split(",")) - set(TARGETS)
    if unknown:
        parser.error(f"unknown targets: {', '.join(sorted(unknown))}")
    return arguments


@contextmanager
def _running(name: str, port_base: int) -> Iterator[Bench]:
    """The target and its engines, for the length of the block."""
    engine_ports = tuple(range(port_base + 1, port_base + 1 + ENGINES))
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as text:
        ground = Ground(port_base + 80, port_base + 81, engine_ports, Path(text))
        launch = TARGETS[name](ground)
        engine: list[str | Path] = [built(HERE / "mock_engine.c"), wire.MODEL, *map(str, engine_ports)]
        with _process(engine, LOAD_CORE, ground.directory / "engine.log", {}) as engines:
            _wait_for(engine_ports[0], engines, ground.directory / "engine.log")
            if not launch.command:
                yield Bench(launch.port, engines.pid, engine_ports[0], core=LOAD_CORE)
                return
            log = ground.directory / "target.log"
            with _process(launch.command, TARGET_CORE, log, launch.environment) as target:
                _wait_for(launch.port, target, log)
                engine_port = engine_ports[0]
                yield Bench(launch.port, target.pid, engine_port, core=LOAD_CORE, is_slow=launch.is_slow)


@contextmanager
def _process(command: list[str | Path], core: int, log: Path, environment: Mapping[str, str]) -> Iterator[Popen[bytes]]:
    process = processes.start(command, core=core, log=log, environment=environment)
    try:
        yield process
    finally:
        processes.stop(process)


def _wait_for(port: int, process: Popen[bytes], log: Path) -> None:
    """Until a chat request is answered well."""
    body = wire.chat_request().partition(b"\r\n\r\n")[2]
    headers = {"Authorization": f"Bearer {wire.API_KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body, headers)
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            urllib.request.urlopen(request, timeout=2).close()  # noqa: S310 - loopback
        except (OSError, urllib.error.HTTPError):
            if time.monotonic() > deadline or process.poll() is not None:
                raise TimeoutError(f"it did not come up; its log ends: {log.read_text()[-500:]}") from None
            time.sleep(0.2)
        else:
            return


def _print(rows: dict[str, list[Row]], arguments: argparse.Namespace) -> None:
    if arguments.limits:
        print(json.dumps(rows, indent=1))
        return
    print(table(rows))
    if "vllm-router" in rows:
        print("\n" + ratios(rows, "vllm-router"))


if __name__ == "__main__":
    main()
