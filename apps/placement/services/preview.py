"""What would happen: a plan before it is applied, what a version needs, moves that would pay. Nothing is written."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

from apps.common.ids import new_id
from apps.deployments.models import Deployment
from apps.deployments.policies.requirements import read_requirements
from apps.deployments.selectors import measured_of
from apps.deployments.services.deployments import checked_requirements
from apps.fleet.policies.gpus import CATALOGUE
from apps.placement.policies.demand import Assignment, Demand
from apps.placement.policies.explaining import Refusal, as_if_applied, explain
from apps.placement.policies.fleet import GPU, NodeView
from apps.placement.policies.helping import remedies
from apps.placement.policies.planning import make_plan
from apps.placement.policies.remedies import Remedy, Widened
from apps.placement.policies.repacking import Repacking, propose_moves
from apps.placement.policies.shaping import WHOLE_GPU_SHARE, Widths, widths_of
from apps.placement.services.loop import IMPROVED_UP_TO, ROUNDS
from apps.placement.services.views import accelerator_of, demand_of, has_gpus, list_node_views, list_running
from apps.registry.models import ModelVersion
from apps.registry.policies.needs import Need, need_of, problem_of_width
from apps.registry.policies.speed import GPUSpeed, SpeedEstimate, estimate_speed
from apps.registry.selectors import registered

REPACKING_ROUNDS = 400
MOST_REFUSALS = 200
BUSY_BATCH = 32


@dataclass(frozen=True, kw_only=True)
class OnGPU:
    """The version on one GPU model of this fleet: what it needs of each, and its speed alone and with a batch."""

    gpu_model: str
    need: Need
    alone: SpeedEstimate
    busy: SpeedEstimate


@dataclass(frozen=True, kw_only=True)
class Preview:
    """`nodes` name the ids in it. `refusals` and `remedies` are of the first replica that has no place.

    `need` is on the GPU that the first one would get, and `kv_tokens_in_place` what its cache would hold there.
    """

    nodes: Sequence[NodeView]
    assignments: Sequence[Assignment]
    unplaced: Sequence[Demand]
    cost_usd_per_h: float
    refusals: Sequence[Refusal]
    remedies: Sequence[Remedy]
    need: Need | None
    kv_tokens_in_place: int | None
    speeds: Sequence[OnGPU]


def preview_deployment(
    *,
    version: ModelVersion,
    now: datetime,
    replica_count: int = 1,
    max_running_requests: int = 64,
    requirements: dict[str, Any] | None = None,
) -> Preview:
    """Of so many replicas more than run now."""
    deployment = Deployment(
        name="preview",
        version=version,
        replica_count=replica_count,
        max_running_requests=max_running_requests,
        requirements=checked_requirements(requirements or {}, version),
        created_at=now,
    )
    return preview_replicas(deployment, count=replica_count)


def preview_replicas(deployment: Deployment, *, count: int) -> Preview:
    nodes = list_node_views()
    gpus = has_gpus(nodes)
    demands = [demand_of(new_id(), deployment.pk, deployment, fleet_has_gpus=gpus) for _ in range(count)]
    rounds = ROUNDS if 1 < count <= IMPROVED_UP_TO else 0
    plan = make_plan(nodes, demands, rounds=rounds, random=Random(0))  # noqa: S311 - the same plan each time
    first = plan.unplaced[0] if plan.unplaced else None
    need = _need_of(deployment, _gpu_model_of(plan.assignments, nodes))
    full = as_if_applied(nodes, plan.assignments)
    return Preview(
        nodes=nodes,
        assignments=plan.assignments,
        unplaced=plan.unplaced,
        cost_usd_per_h=sum(each.usd_per_h for each in plan.assignments),
        refusals=explain(full, first)[:MOST_REFUSALS] if first else [],
        remedies=remedies(full, first, widened=_widened(deployment, first, gpus)) if first else [],
        need=need,
        kv_tokens_in_place=_kv_tokens_in_place(need, plan.assignments, nodes),
        speeds=_speeds(deployment, nodes),
    )


def _widened(deployment: Deployment, demand: Demand, fleet_has_gpus: bool) -> Widened:
    """What it would need at another width; no model is divided into other parts than it has heads for.

    A need that somebody has said is divided as it is.
    """

    def at(width: int) -> Demand | None:
        if problem_of_width(registered(deployment.version), width):
            return None
        wider, said_gib = copy(deployment), deployment.requirements.get("memory_gib")
        divided = {"memory_gib": said_gib * demand.shape.tensor_parallel / width} if said_gib else {}
        wider.requirements = deployment.requirements | {"tensor_parallel": width} | divided
        return demand_of(demand.replica_id, demand.deployment_id, wider, fleet_has_gpus=fleet_has_gpus)

    return at


def propose_repacking() -> Repacking:
    nodes = list_node_views()
    random = Random(0)  # noqa: S311 - the same proposal each time
    return propose_moves(nodes, list_running(nodes), rounds=REPACKING_ROUNDS, random=random)


def _gpu_model_of(assignments: Sequence[Assignment], nodes: Sequence[NodeView]) -> str:
    return accelerator_of(nodes, assignments[0].stages[0]).model if assignments else ""


def _need_of(deployment: Deployment, gpu_model: str) -> Need | None:
    version = deployment.version
    widths: Widths = widths_of(read_requirements(deployment.requirements), version.engine_args)
    return need_of(
        registered(version),
        tensor_parallel=widths.tensor_parallel,
        pipeline_parallel=widths.pipeline_parallel,
        max_running_requests=deployment.max_running_requests,
        measured=measured_of(version),
        gpu_model=gpu_model,
    )


def _kv_tokens_in_place(need: Need | None, assignments: Sequence[Assignment], nodes: Sequence[NodeView]) -> int | None:
    if need is None or not assignments:
        return None
    first = assignments[0]
    accelerator = accelerator_of(nodes, first.stages[0])
    total, shape = accelerator.memory_bytes, first.demand.shape
    usable = int(WHOLE_GPU_SHARE * (total or 0)) if shape.is_exclusive else shape.reserved_bytes(accelerator)
    return need.kv_tokens_on(usable) if total is not None else None


def _speeds(deployment: Deployment, nodes: Sequence[NodeView]) -> list[OnGPU]:
    present = {each.model for node in nodes for each in node.accelerators if each.kind == GPU}
    needs = {name: _need_of(deployment, name) for name in sorted(present & set(CATALOGUE))}
    return [_on_gpu(name, need) for name, need in needs.items() if need is not None]


def _on_gpu(name: str, need: Need) -> OnGPU:
    model = CATALOGUE[name]
    gpu = GPUSpeed(hbm_bytes_per_s=model.hbm_bytes_per_s, bf16_flops=model.bf16_flops, has_fp8=model.has_fp8)
    return OnGPU(
        gpu_model=name,
        need=need,
        alone=estimate_speed(need.facts, need.serving, gpu),
        busy=estimate_speed(need.facts, need.serving, gpu, batch=BUSY_BATCH),
    )
