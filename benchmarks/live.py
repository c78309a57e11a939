"""The simulator's word held against a running gateway: one trace through both, on the same fleet.

    python -m benchmarks.live [--json FILE]                       plays CELLS: below capacity, and past it
    python -m benchmarks.live --workload W3 --load 0.4 --duration 60 [--time-scale 3] [--seed 1] [--within 300]

A real gateway process and fake engines with the same step costs, on a clock `--time-scale` times slower than the
modelled one where the machine needs that: then the simulator plays the same slower engines and arrivals, so that what
the scheduler counts in seconds is the same in both. It is told what a gateway knows: the costs of the GPU, no lengths
of answers, reports four times a second. What clients saw is scored as the simulator scores its jobs.

The simulator goes first, and so it is said beforehand how long a run takes: of W5, whose workflows wait minutes for
their tools, far longer than its --duration, in which they begin. One that takes half as long again, or longer than
`--within`, is stopped; then only those are scored, in each column, whose limits had passed by then.

Below the scores stands what the run took of the machine: where a process needed most of a core, or requests left late,
it is the machine that was measured.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import msgspec
import uvloop

from benchmarks.live_client import Player
from benchmarks.live_course import Course, judged, within_s
from benchmarks.live_processes import Running, cpu_s_of_this, listening, running
from benchmarks.live_setup import MODEL, engine_arguments, gateway_arguments, snapshot_for
from workers.scheduling.endpoint_spec import EndpointSpec
from workers.scheduling.interface import SchedulerConfig
from workers.scheduling.scheduler import Scheduler
from workers.simulator.job import Job
from workers.simulator.lab import FLEET_SIZE, Lab, jobs_of
from workers.simulator.replay import ReplayConfig
from workers.simulator.report import Scores, quantile, score
from workers.simulator.workloads.workload import Workload

LOADS = {"W1": 1.0, "W2": 3.0, "W3": 0.4, "W4": 2.0, "W5": 3.0}
GATEWAY_REPORTS = ReplayConfig(report_every_s=0.25, report_age_s=0.01)


class Cell(msgspec.Struct, frozen=True):
    """`duration_s` is modelled, `time_scale` wall seconds for each of them."""

    workload: str
    load: float
    duration_s: float
    time_scale: float = 1.0


CELLS = (Cell("W1", 0.7, 90.0), Cell("W1", 1.5, 120.0), Cell("W4", 2.0, 140.0))


class Limits(msgspec.Struct, frozen=True):
    """What the machine gave: shares of a core that each part was busy, and how late requests left, in modelled ms."""

    client: float
    gateway: float
    busiest_engine: float
    sent_late_p99_ms: float


class Prepared(msgspec.Struct, frozen=True):
    """What the simulator says of a cell, ours and a router's; `expected_s` of the wall is what the live run takes."""

    cell: Cell
    seed: int
    simulated: Workload
    simulated_until: float
    router: Workload
    router_until: float

    @property
    def expected_s(self) -> float:
        return self.simulated_until * self.cell.time_scale


class Comparison(msgspec.Struct, frozen=True):
    """Of a run that was stopped `requests` are those that could be judged."""

    cell: Cell
    requests: int
    live: Scores
    simulated: Scores
    router: Scores
    limits: Limits
    stopped_after_s: float | None = None

    @property
    def difference(self) -> float:
        return self.live.value / self.simulated.value - 1 if self.simulated.value else 0.0


def build(cell: Cell, seed: int) -> Workload:
    return Lab().workload(cell.workload, cell.load, seed, cell.duration_s)


def prepare(cell: Cell, seed: int) -> Prepared:
    lab = Lab()
    simulated, router = build(cell, seed), build(cell, seed)
    simulated_until = simulate(lab, simulated, cell.time_scale)
    routed = lab.play(router, lab.core("least-outstanding", router, seed))
    return Prepared(cell, seed, simulated, simulated_until, router, routed.ended_at)


def compare(prepared: Prepared, ports: range, limit_s: float) -> Comparison:
    live = build(prepared.cell, prepared.seed)
    planned = [job.arrived_at for job in live.jobs]
    began_at = time.monotonic()
    ended_at, busy = uvloop.run(play_live(live, prepared, ports, limit_s))
    is_stopped = ended_at * prepared.cell.time_scale >= limit_s
    late_ms = sorted(1000 * (job.arrived_at - at) for job, at in zip(live.jobs, planned, strict=True))
    limits = Limits(*busy, sent_late_p99_ms=quantile(late_ms, 0.99))
    return scored(prepared, live, ended_at, limits, time.monotonic() - began_at if is_stopped else None)


def scored(
    prepared: Prepared, live: Workload, ended_at: float, limits: Limits, stopped_after_s: float | None
) -> Comparison:
    def of(workload: Workload, until: float) -> Scores:
        if stopped_after_s is not None:
            workload = judged(workload, prepared.simulated, ended_at)
        return score(workload, jobs_of(workload), until, FLEET_SIZE)

    return Comparison(
        prepared.cell,
        len(jobs_of(live if stopped_after_s is None else judged(live, prepared.simulated, ended_at))),
        of(live, ended_at),
        of(prepared.simulated, prepared.simulated_until),
        of(prepared.router, prepared.router_until),
        limits,
        stopped_after_s,
    )


def simulate(lab: Lab, workload: Workload, time_scale: float) -> float:
    """As the gateway will see it; the modelled time at which the last request has ended."""
    cost = lab.cost_of(workload.engine).scaled(time_scale)
    spec = EndpointSpec(cost=cost, max_batched_tokens=workload.limits.max_batched_tokens)
    core = Scheduler(SchedulerConfig(max_queued_requests=1_000_000), usual_spec=spec)
    for job in jobs_of(workload):
        job.predicted_tokens = 0.0
        stretch(job, time_scale)
    ended_at = lab.play(workload, core, GATEWAY_REPORTS, cost=cost).ended_at
    for job in jobs_of(workload):
        stretch(job, 1 / time_scale)
    return ended_at / time_scale


def stretch(job: Job, factor: float) -> None:
    job.arrived_at *= factor
    job.ttft_slo_s *= factor
    job.tpot_slo_s *= factor
    if job.first_token_at is not None:
        job.first_token_at *= factor
    if job.finished_at is not None:
        job.finished_at *= factor


async def play_live(
    workload: Workload, prepared: Prepared, ports: range, limit_s: float
) -> tuple[float, tuple[float, float, float]]:
    """Fills in what happened to the jobs.

    The modelled time at which the last has ended; shares of a core that client, gateway and busiest engine took.
    """
    time_scale, course = prepared.cell.time_scale, Course(len(jobs_of(workload)), prepared.expected_s)
    port, admin_port, *engine_ports = ports
    with ExitStack() as processes:
        directory = Path(processes.enter_context(tempfile.TemporaryDirectory()))
        engines = [
            processes.enter_context(running(engine_arguments(workload, engine_port, time_scale)))
            for engine_port in engine_ports
        ]
        (directory / "snapshot.json").write_bytes(msgspec.json.encode(snapshot_for(workload, engine_ports, time_scale)))
        gateway = processes.enter_context(running(gateway_arguments(directory, port, admin_port)))
        for each in (*engine_ports, port):
            await listening(each)
        await asyncio.sleep(1.0)  # the gateway has read every engine's metrics by then
        player = Player(port, MODEL, engine_ports, time_scale, course, unit_tokens=workload.limits.unit_tokens)
        began_at, client_s, of_others = time.monotonic(), cpu_s_of_this(), _cpu_s([gateway, *engines])
        ended_at = await player.play(workload.jobs, workload.sessions, limit_s)
        wall_s = time.monotonic() - began_at
        shares = [
            (after - before) / wall_s for before, after in zip(of_others, _cpu_s([gateway, *engines]), strict=True)
        ]
        return ended_at, ((cpu_s_of_this() - client_s) / wall_s, shares[0], max(shares[1:]))


def _cpu_s(processes: Iterable[Running]) -> list[float]:
    return [process.cpu_s() for process in processes]


def print_comparison(found: Comparison) -> None:
    cell, limits = found.cell, found.limits
    print(
        f"{cell.workload} at {cell.load:g}, {cell.duration_s:g} s at 1/{cell.time_scale:g}: {found.requests} requests"
    )
    if found.stopped_after_s is not None:
        print(f"stopped after {found.stopped_after_s:.0f} s: only those are scored whose limits had passed by then")
    print(f"{'':<20}{'live':>12}{'simulated':>12}{'router':>12}")
    for name in Scores.__struct_fields__:
        values = [getattr(scores, name) for scores in (found.live, found.simulated, found.router)]
        if isinstance(values[0], float):
            print(f"{name:<20}" + "".join(f"{value:>12.3f}" for value in values))
    for tenant, share in found.live.by_tenant.items():
        print(f"  {tenant:<18}{share:>12.3f}{found.simulated.by_tenant[tenant]:>12.3f}")
    print(f"value differs by {100 * found.difference:+.1f} %")
    print(
        f"busy: client {limits.client:.0%}, gateway {limits.gateway:.0%}, engine {limits.busiest_engine:.0%} of a core;"
        f" requests left {limits.sent_late_p99_ms:.0f} ms late (p99)\n",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=sorted(LOADS), help="one run instead of CELLS")
    parser.add_argument("--load", type=float, help="default: the score table's")
    parser.add_argument("--duration", type=float, default=60.0, help="modelled seconds (default: %(default)s)")
    parser.add_argument("--time-scale", type=float, default=1.0, help="wall seconds per modelled one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first-port", type=int, default=21800)
    parser.add_argument("--within", type=float, help="wall seconds for one run, after which it is stopped and scored")
    parser.add_argument("--json", type=Path, help="writes the comparisons there as well")
    arguments = parser.parse_args()
    if arguments.workload == "W5" and arguments.time_scale != 1.0:
        parser.error("workflows are played in real time: what comes after what is not scaled")
    ports = range(arguments.first_port, arguments.first_port + 2 + FLEET_SIZE)
    found = []
    for prepared in announced([prepare(cell, arguments.seed) for cell in _cells(arguments)]):
        found.append(compare(prepared, ports, arguments.within or within_s(prepared.expected_s)))
        print_comparison(found[-1])
        if arguments.json:
            arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1))


def announced(runs: list[Prepared]) -> list[Prepared]:
    """Says how long each takes, by the simulator."""
    for prepared in runs:
        cell, count = prepared.cell, len(jobs_of(prepared.simulated))
        print(f"{cell.workload} at {cell.load:g}: {count} requests, about {prepared.expected_s:.0f} s", file=sys.stderr)
    print(f"{sum(prepared.expected_s for prepared in runs):.0f} s in all", file=sys.stderr, flush=True)
    return runs


def _cells(arguments: argparse.Namespace) -> tuple[Cell, ...]:
    name = arguments.workload
    if name is None:
        return CELLS
    return (Cell(name, arguments.load or LOADS[name], arguments.duration, arguments.time_scale),)


if __name__ == "__main__":
    main()
