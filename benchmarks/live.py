"""The simulator's word held against a running gateway: one trace through both, on the same fleet.

    python -m benchmarks.live [--workload W3] [--load 0.4] [--duration 60] [--time-scale 3] [--json FILE]

A real gateway process and fake engines with the same step costs, on a clock `--time-scale` times slower than the
modelled one, so that what Python takes does not count. What clients saw is scored as the simulator scores its jobs.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec
import uvloop

from benchmarks.live_client import Player
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
from workers.simulator.job import Job
from workers.simulator.lab import FLEET_SIZE, OURS, Lab, jobs_of
from workers.simulator.report import Scores, score
from workers.simulator.workloads.workload import Workload

MODEL = "live"
LOADS = {"W1": 1.0, "W2": 3.0, "W3": 0.4, "W4": 2.0}
CLASSES = ("gold", "standard", "batch")
MAX_CONTEXT_TOKENS = 200_000
START_WITHIN_S = 60.0


class Comparison(msgspec.Struct, frozen=True):
    workload: str
    load: float
    requests: int
    live: Scores
    simulated: Scores

    @property
    def difference(self) -> float:
        return self.live.value / self.simulated.value - 1


def compare(build: Callable[[], Workload], seed: int, time_scale: float, ports: range) -> Comparison:
    """`build` makes the same workload each time."""
    lab, workload, again = Lab(), build(), build()
    outcome = lab.play(workload, lab.core(OURS, workload, seed))
    simulated = score(workload, outcome.jobs, outcome.ended_at, FLEET_SIZE)
    ended_at = uvloop.run(play_live(again, time_scale, ports))
    live = score(again, jobs_of(again), ended_at, FLEET_SIZE)
    return Comparison(workload.name, workload.load, len(again.jobs), live, simulated)


async def play_live(workload: Workload, time_scale: float, ports: range) -> float:
    """Fills in what happened to the jobs; the modelled time at which the last has ended."""
    port, admin_port, *engine_ports = ports
    with ExitStack() as processes:
        directory = Path(processes.enter_context(tempfile.TemporaryDirectory()))
        for engine_port in engine_ports:
            processes.enter_context(_process(_engine_arguments(workload, engine_port, time_scale)))
        (directory / "snapshot.json").write_bytes(msgspec.json.encode(snapshot_for(workload, engine_ports, time_scale)))
        processes.enter_context(_process(_gateway_arguments(directory, port, admin_port)))
        for each in (*engine_ports, port):
            await _listening(each)
        await asyncio.sleep(1.0)  # the gateway has read every engine's metrics by then
        player = Player(port, MODEL, engine_ports, time_scale, unit_tokens=workload.limits.unit_tokens)
        return await player.play(workload.jobs)


def snapshot_for(workload: Workload, engine_ports: list[int], time_scale: float) -> Snapshot:
    """A tenant for each of the workload's; its limits are the tightest of its jobs, which ask for looser ones."""
    tenants = {job.tenant: job for job in sorted(workload.jobs, key=lambda job: -job.ttft_slo_s)}
    return Snapshot(
        generation=1,
        compiled_at=time.time(),
        service_classes=[ServiceClass(name=name, rank=rank) for rank, name in enumerate(CLASSES)],
        slo_profiles=[_profile(name, job, time_scale) for name, job in tenants.items()],
        tenants=[
            TenantPolicy(
                tenant_id=name,
                name=name,
                service_class=CLASSES[job.rank],
                slo_profile=name,
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


@contextmanager
def _process(arguments: list[str]) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


async def _listening(port: int) -> None:
    async with asyncio.timeout(START_WITHIN_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


def print_comparison(found: Comparison) -> None:
    print(f"{found.workload} at {found.load:g}: {found.requests} requests")
    print(f"{'':<20}{'live':>12}{'simulated':>12}")
    for name in Scores.__struct_fields__:
        pair = getattr(found.live, name), getattr(found.simulated, name)
        if isinstance(pair[0], float):
            print(f"{name:<20}{pair[0]:>12.3f}{pair[1]:>12.3f}")
    for tenant, share in found.live.by_tenant.items():
        print(f"  {tenant:<18}{share:>12.3f}{found.simulated.by_tenant[tenant]:>12.3f}")
    print(f"value differs by {100 * found.difference:+.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=sorted(LOADS), default="W3")
    parser.add_argument("--load", type=float, help="default: the score table's")
    parser.add_argument("--duration", type=float, default=60.0, help="modelled seconds (default: %(default)s)")
    parser.add_argument("--time-scale", type=float, default=3.0, help="wall seconds per modelled one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first-port", type=int, default=21800)
    parser.add_argument("--json", type=Path, help="writes the comparison there as well")
    arguments = parser.parse_args()
    ports = range(arguments.first_port, arguments.first_port + 2 + FLEET_SIZE)
    load = arguments.load or LOADS[arguments.workload]
    found = compare(
        lambda: Lab().workload(arguments.workload, load, arguments.seed, arguments.duration),
        arguments.seed,
        arguments.time_scale,
        ports,
    )
    print_comparison(found)
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1))


if __name__ == "__main__":
    main()
