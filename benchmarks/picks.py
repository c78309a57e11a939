"""How much CPU an arrival and a dispatch take of the scheduler: under load, and while nobody waits.

python benchmarks/picks.py [--endpoints 64] [--waiting 10000]      a fleet kept full, with a queue in front of it
python benchmarks/picks.py --idle [--endpoints 4]                  one request at a time, from arrival to end
python benchmarks/picks.py --idle --against ../other-checkout      in turns with another checkout: the ratio
"""

import argparse
import gc
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from random import Random

ROOT_VARIABLE = "PICKS_ROOT"
ROOT = Path(os.environ.get(ROOT_VARIABLE) or Path(__file__).parents[1])
sys.path.insert(0, str(ROOT))  # so that it can be run as a file, and measure another checkout

from msgspec import structs  # noqa: E402

from workers.scheduling.endpoint import DEFAULT_SPEC  # noqa: E402
from workers.scheduling.interface import Dispatch, Request, SchedulerConfig  # noqa: E402
from workers.scheduling.scheduler import Scheduler  # noqa: E402

ROUNDS = 4000
PREFIXES = 500


def _request(number: int, now: float, rng: Random) -> Request:
    prefix = rng.randrange(PREFIXES)
    blocks = tuple(prefix * 1000 + index for index in range(rng.randrange(1, 40)))
    return Request(
        request_id=number,
        version_id="v",
        tenant_id=f"t{number % 20}",
        rank=number % 3,
        max_queued_of_tenant=1_000_000,
        arrived_at=now,
        prompt_tokens=512 * len(blocks) + 100,
        predicted_output_tokens=rng.lognormvariate(5, 1),
        prefix_blocks=blocks,
        block_tokens=512,
        ttft_slo_s=rng.uniform(300.0, 600.0),
        tpot_slo_s=0.1,
    )


class Bench:
    """A fleet kept full, with a queue in front of it."""

    def __init__(self, endpoints: int, waiting: int) -> None:
        self.rng = Random(1)
        self.scheduler = Scheduler(SchedulerConfig(max_queued_requests=1_000_000))
        self.now = 0.0
        self.number = 0
        self.running: list[int] = []
        spec = structs.replace(DEFAULT_SPEC, is_speed_known=True)
        for number in range(endpoints):
            self.scheduler.endpoint_updated(f"e{number}", "v", 256, self.now, is_draining=False, spec=spec)
        while self.scheduler.queued_total() < waiting:
            self.arrive()

    def arrive(self) -> float:
        self.number += 1
        request = _request(self.number, self.now, self.rng)
        began = time.thread_time()
        commands = self.scheduler.request_arrived(request, self.now)
        elapsed = time.thread_time() - began
        self.running += [command.request_id for command in commands if isinstance(command, Dispatch)]
        return elapsed

    def turn_over(self) -> tuple[float, int]:
        """One running request gets its first token and ends, a little later; what fits is sent."""
        self.now += 0.002
        request_id = self.running.pop(self.rng.randrange(len(self.running)))
        began = time.thread_time()
        commands = self.scheduler.first_token(request_id, self.now)
        commands += self.scheduler.request_finished(request_id, self.now, 100)
        elapsed = time.thread_time() - began
        sent = [command.request_id for command in commands if isinstance(command, Dispatch)]
        self.running += sent
        return elapsed, len(sent)


def time_idle(endpoints: int, requests: int = 10_000) -> float:
    """Median microseconds of arrival with dispatch, first token and end together, of an idle fleet."""
    scheduler, rng = Scheduler(SchedulerConfig()), Random(1)
    for number in range(endpoints):
        scheduler.endpoint_updated(f"e{number}", "v", 256, 0.0, is_draining=False)
    taken = []
    for number in range(requests):
        now = number * 0.02
        request = _request(number, now, rng)
        request.prefix_blocks, request.prompt_tokens = (), 300
        began = time.thread_time()
        scheduler.request_arrived(request, now)
        scheduler.first_token(number, now + 0.008)
        scheduler.request_finished(number, now + 0.015, 100)
        taken.append(time.thread_time() - began)
    return statistics.median(taken) * 1e6


def compare_idle(endpoints: int, other: Path, rounds: int = 5) -> None:
    """Both in turns, so that what else the machine does meets both."""
    command = [sys.executable, __file__, "--idle", "--endpoints", str(endpoints)]
    taken: dict[Path, list[float]] = {ROOT: [], other: []}
    for _ in range(rounds):
        for folder, times in taken.items():
            environment = {**os.environ, ROOT_VARIABLE: str(folder)}
            run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
            times.append(float(run.stdout.split()[-2]))
    ours, theirs = (statistics.median(times) for times in taken.values())
    print(f"{endpoints} endpoints: {ours:.1f} us here, {theirs:.1f} us there, ratio {ours / theirs:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoints", type=int, default=64)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--idle", action="store_true")
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    if arguments.idle and arguments.against:
        compare_idle(arguments.endpoints, arguments.against.resolve())
    elif arguments.idle:
        print(f"{arguments.endpoints} endpoints: {time_idle(arguments.endpoints):.1f} us")
    else:
        time_loaded(arguments.endpoints, arguments.waiting)


def time_loaded(endpoints: int, waiting: int) -> None:
    bench = Bench(endpoints, waiting)
    gc.collect()
    gc.freeze()
    arrivals, idle_ends, sending, sent = [], [], 0.0, 0
    for _ in range(ROUNDS):
        arrivals.append(bench.arrive())
        elapsed, dispatched = bench.turn_over()
        sent += dispatched
        if dispatched:
            sending += elapsed
        else:
            idle_ends.append(elapsed)
    print(f"waiting {bench.scheduler.queued_total()}, running {len(bench.running)}, dispatched {sent}")
    print_times("arrival", arrivals)
    print_times("first token and end, with nothing to send", idle_ends)
    print(f"dispatch: {sending / max(1, sent) * 1e6:.1f} us per request sent, with the end that made room")


def print_times(name: str, taken: list[float]) -> None:
    print(f"{name}: median {statistics.median(taken) * 1e6:.1f} us, mean {statistics.mean(taken) * 1e6:.1f} us")


if __name__ == "__main__":
    main()
