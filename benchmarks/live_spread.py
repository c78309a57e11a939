"""How evenly a running gateway spreads requests that come at once: `python -m benchmarks.live_spread [--unknown]`.

Rounds of --requests at one moment, to one gateway process in front of --engines fake ones. Told is how many each engine
got, the most and the least apart. With --unknown the gateway is told nothing of the engines' speed.
"""

import argparse
import asyncio
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec
import uvloop

from benchmarks.live_client import Player
from benchmarks.live_course import Course
from benchmarks.live_processes import listening, running
from benchmarks.live_setup import MODEL, engine_arguments, gateway_arguments, snapshot_for
from workers.contracts.endpoints import EngineShape
from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job
from workers.simulator.workloads.workload import Workload

ENGINE = "llama3-8b/h100/tp1"
WITHIN_S = 30.0
REST_S = 2.0


async def spread(arguments: argparse.Namespace) -> None:
    port, admin_port, *engine_ports = range(arguments.first_port, arguments.first_port + 2 + arguments.engines)
    workload = round_of(arguments)
    with ExitStack() as processes:
        directory = Path(processes.enter_context(tempfile.TemporaryDirectory()))
        for engine_port in engine_ports:
            processes.enter_context(running(engine_arguments(workload, engine_port, arguments.time_scale)))
        shape = EngineShape() if arguments.unknown else None
        snapshot = snapshot_for(workload, engine_ports, arguments.time_scale, shape)
        (directory / "snapshot.json").write_bytes(msgspec.json.encode(snapshot))
        processes.enter_context(running(gateway_arguments(directory, port, admin_port)))
        for each in (*engine_ports, port):
            await listening(each)
        await asyncio.sleep(REST_S)
        for number in range(arguments.rounds):
            course = Course(arguments.requests, 0.0)
            player = Player(port, MODEL, engine_ports, 1.0, course, unit_tokens=workload.limits.unit_tokens)
            told(number, await play(player, arguments, number), engine_ports)
            await asyncio.sleep(REST_S)


def round_of(arguments: argparse.Namespace, number: int = 0) -> Workload:
    first = number * arguments.requests
    jobs = [Job(first + each, 0.0, arguments.tokens, arguments.output_tokens) for each in range(arguments.requests)]
    return Workload(name="spread", load=1.0, engine=ENGINE, limits=EngineLimits(), jobs=jobs)


async def play(player: Player, arguments: argparse.Namespace, number: int) -> tuple[list[Job], float]:
    jobs = round_of(arguments, number).jobs
    began_at = time.monotonic()
    await player.play(jobs, [], WITHIN_S)
    return jobs, time.monotonic() - began_at


def told(number: int, played: tuple[list[Job], float], engine_ports: list[int]) -> None:
    jobs, took_s = played
    counts = sorted(sum(job.endpoint == f"e{port}" for job in jobs) for port in engine_ports)
    lost = sum(job.finished_at is None for job in jobs)
    print(f"round {number + 1}: {counts}, {counts[-1] - counts[0]} apart, {lost} lost, {took_s:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=800)
    parser.add_argument("--engines", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=300, help="of each prompt (default: %(default)s)")
    parser.add_argument("--output-tokens", type=int, default=30, help="of each answer (default: %(default)s)")
    parser.add_argument("--time-scale", type=float, default=1.0, help="how much slower the engines are")
    parser.add_argument("--unknown", action="store_true", help="the gateway is not told how fast the engines are")
    parser.add_argument("--first-port", type=int, default=21900)
    uvloop.run(spread(parser.parse_args()))


if __name__ == "__main__":
    main()
