"""How long an arrival and a dispatch take the scheduler.

python benchmarks/picks.py [--endpoints 64] [--waiting 10000]
"""

import argparse
import gc
import statistics
import time
from random import Random

from workers.scheduling.interface import Dispatch, Request, SchedulerConfig
from workers.scheduling.scheduler import Scheduler

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
        for number in range(endpoints):
            self.scheduler.endpoint_updated(f"e{number}", "v", 256, self.now, is_draining=False)
        while self.scheduler.queued_total() < waiting:
            self.arrive()

    def arrive(self) -> float:
        self.number += 1
        request = _request(self.number, self.now, self.rng)
        began = time.perf_counter()
        commands = self.scheduler.request_arrived(request, self.now)
        elapsed = time.perf_counter() - began
        self.running += [command.request_id for command in commands if isinstance(command, Dispatch)]
        return elapsed

    def turn_over(self) -> tuple[float, int]:
        """One running request gets its first token and ends, a little later; what fits is sent."""
        self.now += 0.002
        request_id = self.running.pop(self.rng.randrange(len(self.running)))
        began = time.perf_counter()
        commands = self.scheduler.first_token(request_id, self.now)
        commands += self.scheduler.request_finished(request_id, self.now, 100)
        elapsed = time.perf_counter() - began
        sent = [command.request_id for command in commands if isinstance(command, Dispatch)]
        self.running += sent
        return elapsed, len(sent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoints", type=int, default=64)
    parser.add_argument("--waiting", type=int, default=10_000)
    arguments = parser.parse_args()
    bench = Bench(arguments.endpoints, arguments.waiting)
    gc.collect()
    gc.freeze()
    arrivals, events, sent = [], [], 0
    for _ in range(ROUNDS):
        arrivals.append(bench.arrive())
        elapsed, dispatched = bench.turn_over()
        events.append(elapsed)
        sent += dispatched
    print(f"waiting {bench.scheduler.queued_total()}, running {len(bench.running)}, dispatched {sent}")
    print(f"arrival:  median {statistics.median(arrivals) * 1e6:.1f} us, mean {statistics.mean(arrivals) * 1e6:.1f} us")
    print(f"end:      median {statistics.median(events) * 1e6:.1f} us, mean {statistics.mean(events) * 1e6:.1f} us")
    print(f"dispatch: {sum(events) / max(1, sent) * 1e6:.1f} us per request sent")


if __name__ == "__main__":
    main()
