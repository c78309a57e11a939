"""The simulator's word held against a running gateway: one trace through both, on the same fleet.

    python -m benchmarks.live [--json FILE]                       plays CELLS: below capacity, and past it
    python -m benchmarks.live --workload W3 --load 0.4 --duration 60 [--time-scale 3] [--seed 1]

A real gateway process and fake engines with the same step costs, on a clock `--time-scale` times slower than the
modelled one where the machine needs that: then the simulator plays the same slower engines and arrivals, so that what
the scheduler counts in seconds is the same in both. It is told what a gateway knows: the costs of the GPU, no lengths
of answers, reports four times a second. What clients saw is scored as the simulator scores its jobs.

Below the scores stands what the run took of the machine: where a process needed most of a core, or requests left late,
it is the machine that was measured.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import msgspec
import uvloop

from benchmarks.live_client import Player
from benchmarks.live_processes import Running, cpu_s_of_this, listening, running
from workers.contracts.endpoints import Endpoint, EngineShape
from workers.contracts.snapshot import (
    KeyGrant,
    Route,
    RouteTarget,
    ServiceClass,
    SLOProfile,
    Snapshot,
    TenantPolicy,
    Version,
)
from workers.scheduling.endpoint_spec import EndpointSpec
from workers.scheduling.interface import SchedulerConfig
from workers.scheduling.scheduler import Scheduler
from workers.simulator.job import Job
from workers.simulator.lab import FLEET_SIZE, Lab, jobs_of
from workers.simulator.replay import ReplayConfig
from workers.simulator.report import Scores, quantile, score
from workers.simulator.workloads.workload import Workload

MODEL = "live"
LOADS = {"W1": 1.0, "W2": 3.0, "W3": 0.4, "W4": 2.0, "W5": 3.0}
CLASSES = ("gold", "standard", "batch")
MAX_CONTEXT_TOKENS = 200_000
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


class Comparison(msgspec.Struct, frozen=True):
    cell: Cell
    requests: int
    live: Scores
    simulated: Scores
    router: Scores
    limits: Limits

    @property
    def difference(self) -> float:
        return self.live.value / self.simulated.value - 1


def compare(cell: Cell, seed: int, ports: range) -> Comparison:
    lab = Lab()

    def build() -> Workload:
        return lab.workload(cell.workload, cell.load, seed, cell.duration_s)

    live = build()
    planned = [job.arrived_at for job in live.jobs]
    ended_at, busy = uvloop.run(play_live(live, cell.time_scale, ports))
    late_ms = sorted(1000 * (job.arrived_at - at) for job, at in zip(live.jobs, planned, strict=True))
    workload, router = build(), build()
    simulated_until = simulate(lab, workload, cell.time_scale)
    routed = lab.play(router, lab.core("least-outstanding", router, seed))
    return Comparison(
        cell,
        len(jobs_of(live)),
        score(live, jobs_of(live), ended_at, FLEET_SIZE),
        score(workload, jobs_of(workload), simulated_until, FLEET_SIZE),
        score(router, routed.jobs, routed.ended_at, FLEET_SIZE),
        Limits(*busy, sent_late_p99_ms=quantile(late_ms, 0.99)),
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


async def play_live(workload: Workload, time_scale: float, ports: range) -> tuple[float, tuple[float, float, float]]:
    """Fills in what happened to the jobs.

    The modelled time at which the last has ended; shares of a core that client, gateway and busiest engine took.
    """
    port, admin_port, *engine_ports = ports
    with ExitStack() as processes:
        directory = Path(processes.enter_context(tempfile.TemporaryDirectory()))
        engines = [
            processes.enter_context(running(_engine_arguments(workload, engine_port, time_scale)))
            for engine_port in engine_ports
        ]
        (directory / "snapshot.json").write_bytes(msgspec.json.encode(snapshot_for(workload, engine_ports, time_scale)))
        gateway = processes.enter_context(running(_gateway_arguments(directory, port, admin_port)))
        for each in (*engine_ports, port):
            await listening(each)
        await asyncio.sleep(1.0)  # the gateway has read every engine's metrics by then
        player = Player(port, MODEL, engine_ports, time_scale, unit_tokens=workload.limits.unit_tokens)
        began_at, client_s, of_others = time.monotonic(), cpu_s_of_this(), _cpu_s([gateway, *engines])
        ended_at = await player.play(workload.jobs, workload.sessions)
        wall_s = time.monotonic() - began_at
        shares = [
            (after - before) / wall_s for before, after in zip(of_others, _cpu_s([gateway, *engines]), strict=True)
        ]
        return ended_at, ((cpu_s_of_this() - client_s) / wall_s, shares[0], max(shares[1:]))


def _cpu_s(processes: Iterable[Running]) -> list[float]:
    return [process.cpu_s() for process in processes]


def snapshot_for(workload: Workload, engine_ports: list[int], time_scale: float) -> Snapshot:
    """A tenant for each of the workload's; its limits are the tightest of its jobs, which ask for looser ones."""
    tenants = {job.tenant: job for job in sorted(jobs_of(workload), key=lambda job: -job.ttft_slo_s)}
    return Snapshot(
        generation=1,
        compiled_at=time.time(),
        service_classes=[ServiceClass(name=name, rank=rank) for rank, name in enumerate(CLASSES)],
        slo_profiles=[_profile(name, job, time_scale) for name, job in tenants.items() if job.ttft_slo_s],
        tenants=[
            TenantPolicy(
                tenant_id=name,
                name=name,
                service_class=CLASSES[job.rank],
                slo_profile=name if job.ttft_slo_s else "",
                max_queued_requests=1_000_000,
            )
            for name, job in tenants.items()
        ],
        keys=[KeyGrant(key_id=name, key_sha256=sha256(name.encode()).hexdigest(), tenant_id=name) for name in tenants],
        versions=[Version(version_id="v1", model=MODEL, label="v1", served_name=MODEL)],
        routes=[Route(public_name=MODEL, targets=[RouteTarget(version_id="v1", weight=1)])],
        endpoints=[_endpoint(workload, port, time_scale) for port in engine_ports],
    )


def _profile(name: str, tightest: Job, time_scale: float) -> SLOProfile:
    ttft_ms, tpot_ms = (round(1000 * limit_s * time_scale) for limit_s in (tightest.ttft_slo_s, tightest.tpot_slo_s))
    return SLOProfile(name=name, ttft_ms=ttft_ms, tpot_ms=tpot_ms)


def _endpoint(workload: Workload, port: int, time_scale: float) -> Endpoint:
    shape = EngineShape(
        cost_profile=workload.engine,
        time_scale=time_scale,
        max_batched_tokens=workload.limits.max_batched_tokens,
        max_sequences=workload.limits.max_sequences,
        has_priorities=True,
    )
    return Endpoint(
        endpoint_id=f"e{port}",
        version_id="v1",
        base_url=f"http://127.0.0.1:{port}",
        max_running_requests=workload.limits.max_sequences,
        shape=shape,
    )


def _engine_arguments(workload: Workload, port: int, time_scale: float) -> list[str]:
    limits = workload.limits
    arguments = ["-m", "workers.engines.fake", "--port", str(port), "--served-model-name", MODEL]
    arguments += ["--profile", workload.engine, "--time-scale", str(time_scale)]
    arguments += ["--max-num-batched-tokens", str(limits.max_batched_tokens)]
    return [
        *arguments,
        *("--max-num-seqs", str(limits.max_sequences)),
        *("--max-model-len", str(MAX_CONTEXT_TOKENS)),
    ]


def _gateway_arguments(directory: Path, port: int, admin_port: int) -> list[str]:
    snapshot, spool = directory / "snapshot.json", directory / "spool"
    ports = ["--port", str(port), "--admin-port", str(admin_port)]
    return ["-m", "workers.gateway", "--snapshot", str(snapshot), "--spool", str(spool), *ports]


def print_comparison(found: Comparison) -> None:
    cell, limits = found.cell, found.limits
    print(
        f"{cell.workload} at {cell.load:g}, {cell.duration_s:g} s at 1/{cell.time_scale:g}: {found.requests} requests"
    )
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
    parser.add_argument("--json", type=Path, help="writes the comparisons there as well")
    arguments = parser.parse_args()
    if arguments.workload == "W5" and arguments.time_scale != 1.0:
        parser.error("workflows are played in real time: what comes after what is not scaled")
    ports = range(arguments.first_port, arguments.first_port + 2 + FLEET_SIZE)
    found = []
    for cell in _cells(arguments):
        found.append(compare(cell, arguments.seed, ports))
        print_comparison(found[-1])
        if arguments.json:
            arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1))


def _cells(arguments: argparse.Namespace) -> tuple[Cell, ...]:
    name = arguments.workload
    if name is None:
        return CELLS
    return (Cell(name, arguments.load or LOADS[name], arguments.duration, arguments.time_scale),)


if __name__ == "__main__":
    main()
