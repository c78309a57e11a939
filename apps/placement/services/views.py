"""The fleet and the replicas as the planner sees them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any
from uuid import UUID

from apps.deployments.models import HOST_KEY, Deployment, Replica, ReplicaState, Revision
from apps.deployments.policies.requirements import Requirements, read_requirements
from apps.deployments.selectors import measured_of
from apps.fleet.models import Accelerator, Node, NodeState
from apps.fleet.policies.gpus import CATALOGUE
from apps.placement.policies.board import UNKNOWN_BYTES, Board
from apps.placement.policies.board import NodeState as BoardNode
from apps.placement.policies.demand import Demand, Shape, Stage
from apps.placement.policies.fleet import CPU, GPU, MIG, AcceleratorView, NodeView, Occupant, SleepingEngine
from apps.placement.policies.repacking import Running
from apps.placement.policies.shaping import Sizes, Widths, shape_of
from apps.placement.services.weights import cached_on, coming_to, free_disk_of, weights_of
from apps.registry.policies.memory import RUNTIME_BYTES
from apps.registry.policies.needs import need_of
from apps.registry.selectors import registered

# Of an accelerator, in the order of _FACTS: of a value, so that alike ones are one view.
_Facts = tuple[Any, ...]
_FACTS = (
    "key", "kind", "model", "name", "memory_total_bytes", "foreign_bytes", "island", "numa", "problem", "profile",
)  # fmt: skip
PRICE_LABEL = "usd-per-h"
# Asleep, an engine keeps its CUDA context on the GPU.
SLEEPING_BYTES = RUNTIME_BYTES


def list_node_views() -> list[NodeView]:
    """Each with the replicas that are on it."""
    placed: dict[UUID, list[Replica]] = {}
    for replica in Replica.objects.exclude(node=None).select_related("revision__version").order_by("id"):
        for node_id in _held_by(replica):
            placed.setdefault(UUID(node_id), []).append(replica)
    gpus = _list_accelerators()
    nodes = Node.objects.defer("token_sha256").order_by("name")
    return [_node_view(node, placed.get(node.pk, []), gpus.get(node.pk, [])) for node in nodes]


def _held_by(replica: Replica) -> list[str]:
    """Of one that goes, each node's part gives its memory back when it has stopped there."""
    node_ids = replica.node_ids or [str(replica.node_id)]
    gone = [each for each, told in replica.parts.items() if told["state"] == ReplicaState.STOPPED]
    return [each for each in node_ids if not (replica.is_draining and each in gone)]


def _list_accelerators() -> dict[UUID, list[_Facts]]:
    """Only the columns that matter here: of a thousand nodes there are some thousand rows, each turn."""
    found: dict[UUID, list[_Facts]] = {}
    rows = Accelerator.objects.order_by("node_id", "kind", "index").values_list("node_id", *_FACTS)
    for node_id, *facts in rows.iterator(chunk_size=2000):
        found.setdefault(node_id, []).append(tuple(facts))
    return found


def has_gpus(nodes: Iterable[NodeView]) -> bool:
    return any(each.kind in (GPU, MIG) for node in nodes for each in node.accelerators)


def demand_of(replica_id: UUID, deployment_id: UUID, wanted: Deployment | Revision, *, fleet_has_gpus: bool) -> Demand:
    requirements = read_requirements(wanted.requirements)
    weights_key, weights_bytes = weights_of(wanted.version)
    return Demand(
        replica_id=replica_id,
        deployment_id=deployment_id,
        shape=_shape_of(wanted, requirements, fleet_has_gpus=fleet_has_gpus),
        weights_key=weights_key,
        weights_bytes=weights_bytes,
        avoids=tuple(requirements.avoids),
    )


def list_running(nodes: Sequence[NodeView]) -> list[Running]:
    """Replicas that serve and may be asked to go elsewhere; not one whose GPU its node reports no longer."""
    rows = Replica.objects.filter(state=ReplicaState.READY, is_draining=False).select_related("revision__version")
    gpus = has_gpus(nodes)
    known = {(node.node_id, each.key) for node in nodes for each in node.accelerators}
    return [
        Running(demand=demand_of(row.pk, row.deployment_id, row.revision, fleet_has_gpus=gpus), stages=stages)
        for row in rows.prefetch_related("revision__version__measurements")
        if (stages := stages_of(row)) and all((each.node_id, key) in known for each in stages for key in each.keys)
    ]


def accelerator_of(nodes: Sequence[NodeView], stage: Stage) -> AcceleratorView:
    """Its first: those of a stage are alike."""
    view = next(node for node in nodes if node.node_id == stage.node_id)
    return next(each for each in view.accelerators if each.key == stage.keys[0])


def wakeable_replicas() -> set[UUID]:
    """Sleeping ones that would find their memory where they lie, also if all of these woke."""
    rows = Replica.objects.filter(is_asleep=True, is_draining=False, node__state=NodeState.ONLINE)
    asleep = list(rows.select_related("revision__version").order_by("id"))
    if not asleep:
        return set()
    states = {state.view.node_id: state for state in Board(list_node_views(), []).nodes}
    return {row.pk for row in asleep if _wakes(row, states)}


def _wakes(row: Replica, states: Mapping[UUID, BoardNode]) -> bool:
    """Takes its memory there. What it keeps while asleep is counted as used already."""
    missing = row.reserved_bytes - min(SLEEPING_BYTES, row.reserved_bytes)
    stages = [(states[stage.node_id], stage.keys) for stage in stages_of(row)]
    if not all(_has_room(state, key, row, missing) for state, keys in stages for key in keys):
        return False
    for state, keys in stages:
        state.occupy([state.positions[key] for key in keys], missing, is_exclusive=row.is_exclusive, sign=1)
    return True


def _has_room(state: BoardNode, key: str, row: Replica, missing: int) -> bool:
    index = state.positions.get(key)
    if index is None or state.held[index] or (row.is_exclusive and state.users[index]):
        return False
    return state.free[index] == UNKNOWN_BYTES or state.free[index] >= missing


def stages_of(replica: Replica) -> tuple[Stage, ...]:
    return tuple(Stage(node_id=UUID(each["node_id"]), keys=tuple(each["keys"])) for each in replica.stages)


def _shape_of(wanted: Deployment | Revision, requirements: Requirements, *, fleet_has_gpus: bool) -> Shape:
    version = wanted.version
    measured = measured_of(version)

    def bytes_on(gpu_model: str, widths: Widths) -> int | None:
        need = need_of(
            registered(version),
            tensor_parallel=widths.tensor_parallel,
            pipeline_parallel=widths.pipeline_parallel,
            max_running_requests=wanted.max_running_requests,
            measured=measured,
            gpu_model=gpu_model,
        )
        return need.memory.total_bytes if need else None

    def sizes_of(widths: Widths) -> Sizes:
        models = sorted({each.gpu_model for each in measured} - {""})
        by_model = tuple((model, found) for model in models if (found := bytes_on(model, widths)))
        return Sizes(anywhere=bytes_on("", widths), by_model=by_model)

    return shape_of(
        requirements,
        engine=version.engine,
        engine_args=version.engine_args,
        has_gpus=fleet_has_gpus,
        sizes_of=sizes_of,
    )


def _node_view(node: Node, placed: Sequence[Replica], gpus: Sequence[_Facts]) -> NodeView:
    engines = node.inventory.get("engines")
    cached = cached_on(node.inventory, placed)
    price = node.labels.get(PRICE_LABEL)
    return NodeView(
        node_id=node.pk,
        name=node.name,
        state=node.state,
        is_cordoned=node.is_cordoned,
        is_draining=node.is_draining,
        is_reachable=bool(node.gateway_url),
        engines=frozenset(map(str, engines)) if isinstance(engines, list) else None,
        labels=node.labels,
        accelerators=(*(_accelerator_view(each, price) for each in gpus), _host_of(node)),
        occupants=tuple(_occupant(replica, node) for replica in placed),
        cached=cached,
        coming=coming_to(placed, cached),
        disk_free_bytes=free_disk_of(node.inventory),
        sleeping=tuple(
            SleepingEngine(weights_key=weights_of(replica.revision.version)[0], keys=_keys_on(replica, node))
            for replica in placed
            if _has_lain_down(replica)
        ),
    )


@lru_cache(maxsize=20_000)
def _accelerator_view(facts: _Facts, price: str | None) -> AcceleratorView:
    """The CPU that a node without a GPU reports is the host, which every node has."""
    key, kind, model, name, memory_bytes, foreign_bytes, island, numa, problem, profile = facts
    listed = CATALOGUE.get(model)
    return AcceleratorView(
        key=key,
        kind=kind if kind != CPU else "reported",
        model=model or name,
        memory_bytes=memory_bytes,
        foreign_bytes=foreign_bytes,
        island=island,
        numa=numa,
        usd_per_h=_usd_per_h(price, listed.usd_per_h if listed else 0.0),
        is_healthy=not problem,
        profile=profile,
    )


def _usd_per_h(label: str | None, list_usd_per_h: float) -> float:
    """A node's label says what its GPUs really cost; one that is no number is passed over."""
    try:
        found = list_usd_per_h if label is None else float(label)
    except ValueError:
        return list_usd_per_h
    return max(0.0, found) if isfinite(found) else list_usd_per_h


def _host_of(node: Node) -> AcceleratorView:
    memory = node.inventory.get("memory_bytes")
    return AcceleratorView(key=HOST_KEY, kind=CPU, memory_bytes=memory if isinstance(memory, int) else None)


def _keys_on(replica: Replica, node: Node) -> tuple[str, ...]:
    """A replica that was placed before there were stages is on the host."""
    keys = [key for each in replica.stages if each["node_id"] == str(node.pk) for key in each["keys"]]
    return tuple(keys or [HOST_KEY])


def _has_lain_down(replica: Replica) -> bool:
    """One that shall wake has its memory again from then on."""
    return replica.is_asleep and replica.state == ReplicaState.SLEEPING


def _occupant(replica: Replica, node: Node) -> Occupant:
    has_lain_down = _has_lain_down(replica)
    return Occupant(
        replica_id=replica.pk,
        deployment_id=replica.deployment_id,
        keys=_keys_on(replica, node),
        bytes_each=min(SLEEPING_BYTES, replica.reserved_bytes) if has_lain_down else replica.reserved_bytes,
        is_exclusive=replica.is_exclusive and not has_lain_down,
        is_asleep=has_lain_down,
        avoids=tuple(UUID(each) for each in replica.revision.requirements.get("avoids", [])),
    )
