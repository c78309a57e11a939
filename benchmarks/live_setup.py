"""What the processes of a live run are started with: a tenant for each of the workload's, and its engines' shape."""

import time
from hashlib import sha256
from pathlib import Path

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
from workers.simulator.lab import jobs_of
from workers.simulator.workloads.workload import Workload

MODEL = "live"
CLASSES = ("gold", "standard", "batch")
MAX_CONTEXT_TOKENS = 200_000


def snapshot_for(
    workload: Workload, engine_ports: list[int], time_scale: float, shape: EngineShape | None = None
) -> Snapshot:
    """A tenant for each of the workload's; its limits are the tightest of its jobs, which ask for looser ones.

    `shape` is what the gateway is told of the engines, if not what they are.
    """
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
        endpoints=[_endpoint(workload, port, shape or _shape(workload, time_scale)) for port in engine_ports],
    )


def _profile(name: str, tightest: Job, time_scale: float) -> SLOProfile:
    ttft_ms, tpot_ms = (round(1000 * limit_s * time_scale) for limit_s in (tightest.ttft_slo_s, tightest.tpot_slo_s))
    return SLOProfile(name=name, ttft_ms=ttft_ms, tpot_ms=tpot_ms)


def _shape(workload: Workload, time_scale: float) -> EngineShape:
    return EngineShape(
        cost_profile=workload.engine,
        time_scale=time_scale,
        max_batched_tokens=workload.limits.max_batched_tokens,
        max_sequences=workload.limits.max_sequences,
        has_priorities=True,
    )


def _endpoint(workload: Workload, port: int, shape: EngineShape) -> Endpoint:
    return Endpoint(
        endpoint_id=f"e{port}",
        version_id="v1",
        base_url=f"http://127.0.0.1:{port}",
        max_running_requests=workload.limits.max_sequences,
        shape=shape,
    )


def engine_arguments(workload: Workload, port: int, time_scale: float) -> list[str]:
    limits = workload.limits
    arguments = ["-m", "workers.engines.fake", "--port", str(port), "--served-model-name", MODEL]
    arguments += ["--profile", workload.engine, "--time-scale", str(time_scale)]
    arguments += ["--max-num-batched-tokens", str(limits.max_batched_tokens)]
    return [
        *arguments,
        *("--max-num-seqs", str(limits.max_sequences)),
        *("--max-model-len", str(MAX_CONTEXT_TOKENS)),
    ]


def gateway_arguments(directory: Path, port: int, admin_port: int) -> list[str]:
    snapshot, spool = directory / "snapshot.json", directory / "spool"
    ports = ["--port", str(port), "--admin-port", str(admin_port)]
    return ["-m", "workers.gateway", "--snapshot", str(snapshot), "--spool", str(spool), *ports]
