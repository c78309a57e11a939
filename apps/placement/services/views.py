"""The fleet and the replicas as the planner sees them."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from apps.deployments.models import Deployment, Replica, ReplicaState
from apps.deployments.policies.requirements import Requirements, read_requirements
from apps.fleet.models import Accelerator, Node
from apps.fleet.policies.gpus import CATALOGUE
from apps.fleet.selectors import list_nodes
from apps.placement.policies.demand import Demand, Shape, Stage
from apps.placement.policies.fleet import CPU, GPU, MIG, AcceleratorView, NodeView, Occupant, SleepingEngine
from apps.placement.policies.repacking import Running
from apps.placement.policies.shaping import Widths, shape_of
from apps.registry.policies.needs import need_of
from apps.registry.selectors import registered

HOST_KEY = "cpu"
PRICE_LABEL = "usd-per-h"


def list_node_views() -> list[NodeView]:
    placed = list(Replica.objects.exclude(node=None).select_related("deployment__version"))
    return [_node_view(node, placed) for node in list_nodes()]


def has_gpus(nodes: Iterable[NodeView]) -> bool:
    return any(each.kind in (GPU, MIG) for node in nodes for each in node.accelerators)


def demand_of(replica_id: UUID, deployment: Deployment, *, fleet_has_gpus: bool) -> Demand:
    version = deployment.version
    requirements = read_requirements(deployment.requirements)
    return Demand(
        replica_id=replica_id,
        deployment_id=deployment.pk,
        shape=_shape_of(deployment, requirements, fleet_has_gpus=fleet_has_gpus),
        weights_key=version.weights_key,
        weights_bytes=version.weight_bytes or 0,
        avoids=tuple(requirements.avoids),
    )


def list_running(nodes: Sequence[NodeView]) -> list[Running]:
    """Replicas that serve and may be asked to go elsewhere."""
    rows = Replica.objects.filter(state=ReplicaState.READY, is_draining=False).select_related("deployment__version")
    gpus = has_gpus(nodes)
    return [
        Running(demand=demand_of(row.pk, row.deployment, fleet_has_gpus=gpus), stages=stages_of(row))
        for row in rows
        if row.stages
    ]


def stages_of(replica: Replica) -> tuple[Stage, ...]:
    return tuple(Stage(node_id=UUID(each["node_id"]), keys=tuple(each["keys"])) for each in replica.stages)


def _shape_of(deployment: Deployment, requirements: Requirements, *, fleet_has_gpus: bool) -> Shape:
    version = deployment.version

    def memory_bytes(widths: Widths) -> int | None:
        need = need_of(
            registered(version),
            tensor_parallel=widths.tensor_parallel,
            pipeline_parallel=widths.pipeline_parallel,
            max_running_requests=deployment.max_running_requests,
        )
        return need.memory.total_bytes if need else None

    return shape_of(
        requirements,
        engine=version.engine,
        engine_args=version.engine_args,
        has_gpus=fleet_has_gpus,
        memory_bytes=memory_bytes,
    )


def _node_view(node: Node, placed: Sequence[Replica]) -> NodeView:
    engines = node.inventory.get("engines")
    cached = node.inventory.get("weights")
    return NodeView(
        node_id=node.pk,
        name=node.name,
        state=node.state,
        is_cordoned=node.is_cordoned,
        is_draining=node.is_draining,
        engines=frozenset(map(str, engines)) if isinstance(engines, list) else None,
        labels=node.labels,
        accelerators=(*(_accelerator_view(each, node) for each in node.accelerators.all()), _host_of(node)),
        occupants=tuple(_occupant(replica, node) for replica in placed if _is_on(replica, node)),
        cached=frozenset(map(str, cached)) if isinstance(cached, Mapping) else frozenset(),
        sleeping=tuple(
            SleepingEngine(weights_key=replica.deployment.version.weights_key, keys=_keys_on(replica, node))
            for replica in placed
            if replica.state == ReplicaState.SLEEPING and _is_on(replica, node)
        ),
    )


def _accelerator_view(row: Accelerator, node: Node) -> AcceleratorView:
    """The CPU that a node without a GPU reports is the host, which every node has."""
    model = CATALOGUE.get(row.model)
    return AcceleratorView(
        key=row.key,
        kind=row.kind if row.kind != CPU else "reported",
        model=row.model or row.name,
        memory_bytes=row.memory_total_bytes,
        foreign_bytes=row.foreign_bytes,
        island=row.island,
        numa=row.numa,
        usd_per_h=_price(node, model.usd_per_h if model else 0.0),
        is_healthy=not row.problem,
        profile=row.profile,
    )


def _price(node: Node, list_usd_per_h: float) -> float:
    """A node's label says what it really costs; one that is no number is passed over."""
    try:
        return max(0.0, float(node.labels.get(PRICE_LABEL, list_usd_per_h)))
    except ValueError:
        return list_usd_per_h


def _host_of(node: Node) -> AcceleratorView:
    memory = node.inventory.get("memory_bytes")
    return AcceleratorView(key=HOST_KEY, kind=CPU, memory_bytes=memory if isinstance(memory, int) else None)


def _is_on(replica: Replica, node: Node) -> bool:
    return replica.node_id == node.pk or any(each["node_id"] == str(node.pk) for each in replica.stages)


def _keys_on(replica: Replica, node: Node) -> tuple[str, ...]:
    """A replica that was placed before there were stages is on the host."""
    keys = [key for each in replica.stages if each["node_id"] == str(node.pk) for key in each["keys"]]
    return tuple(keys or [HOST_KEY])


def _occupant(replica: Replica, node: Node) -> Occupant:
    return Occupant(
        replica_id=replica.pk,
        deployment_id=replica.deployment_id,
        keys=_keys_on(replica, node),
        bytes_each=0 if replica.state == ReplicaState.SLEEPING else replica.reserved_bytes,
        is_exclusive=replica.is_exclusive and replica.state != ReplicaState.SLEEPING,
    )
