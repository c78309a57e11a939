"""What would make a replica fit: every answer was tried on the fleet as it is."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from apps.placement.policies.board import Board
from apps.placement.policies.demand import Assignment, Demand, Shape
from apps.placement.policies.disk import Disks
from apps.placement.policies.fleet import NodeView, Occupant
from apps.placement.policies.planning import Planner
from apps.placement.policies.reasons import gib

_WIDEST = 8
_SEARCH_STEPS = 24
# Of nodes that would do by themselves: the whole fleet is asked for so many, which takes as long each time.
_MOST_LOOKED_AT = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """`change` says what to do; `node_names` where the replica would then be."""

    change: str
    node_names: tuple[str, ...]


def remedies(nodes: Sequence[NodeView], demand: Demand) -> list[Remedy]:
    """The cheapest kinds first. Empty: only other machines would help, or nothing is missing."""
    if _try(nodes, demand) is not None:
        return []
    found = [*_relaxed(nodes, demand), *_less_memory(nodes, demand), *_wider(nodes, demand)]
    return [*found, *_opened(nodes, demand), *_more_disk(nodes, demand), *_without_one(nodes, demand)]


def _try(nodes: Sequence[NodeView], demand: Demand) -> Assignment | None:
    return Planner(Board(nodes, [demand.shape])).find(demand)


def _remedy(nodes: Sequence[NodeView], demand: Demand, change: str) -> Iterator[Remedy]:
    found = _try(nodes, demand)
    if found is not None:
        names = {node.node_id: node.name for node in nodes}
        yield Remedy(change=change, node_names=tuple(names[node_id] for node_id in found.node_ids))


def _relaxed(nodes: Sequence[NodeView], demand: Demand) -> Iterator[Remedy]:
    """One condition less."""
    shape = demand.shape
    conditions: list[tuple[object, str, Callable[[Shape], Shape]]] = [
        (shape.models, "allow other GPU models", lambda s: replace(s, models=())),
        (shape.labels, "drop the node labels asked for", lambda s: replace(s, labels=())),
        (shape.profile, "allow other MIG profiles", lambda s: replace(s, profile="")),
        (shape.apart, "allow replicas of the deployment side by side", lambda s: replace(s, apart="")),
        (shape.needs_nvlink, "allow tensor parallel over PCIe", lambda s: replace(s, needs_nvlink=False)),
        (shape.max_usd_per_h is not None, "allow a higher price", lambda s: replace(s, max_usd_per_h=None)),
        (shape.is_exclusive, "share GPUs with other replicas", lambda s: replace(s, is_exclusive=False)),
    ]
    for is_set, change, relax in conditions:
        if is_set:
            yield from _remedy(nodes, replace(demand, shape=relax(shape)), change)
    if demand.avoids:
        yield from _remedy(nodes, replace(demand, avoids=()), "allow it beside the deployments it avoids")


def _less_memory(nodes: Sequence[NodeView], demand: Demand) -> Iterator[Remedy]:
    """The most memory with which it would fit, by halving the interval."""
    needed = max([demand.shape.memory_bytes or 0, *(each for _, each in demand.shape.memory_by_model)])
    if not needed or _try(nodes, _with_memory(demand, 0)) is None:
        return
    low, high = 0, needed
    for _ in range(_SEARCH_STEPS):
        middle = (low + high) // 2
        low, high = (middle, high) if _try(nodes, _with_memory(demand, middle)) else (low, middle)
    words = f"need at most {gib(low)} on each GPU instead of {gib(needed)} (shorter context, quantised weights)"
    yield from _remedy(nodes, _with_memory(demand, low), words)


def _with_memory(demand: Demand, memory_bytes: int) -> Demand:
    share = None if demand.shape.memory_share is None else demand.shape.memory_share * memory_bytes
    needed = demand.shape.memory_bytes or 1
    return replace(
        demand,
        shape=replace(
            demand.shape,
            memory_bytes=memory_bytes,
            memory_by_model=(),
            memory_share=None if share is None else share / needed,
        ),
    )


def _wider(nodes: Sequence[NodeView], demand: Demand) -> Iterator[Remedy]:
    """Over more GPUs each holds less; what does not divide (activations) is left out, so this is a first look."""
    shape = demand.shape
    width = shape.tensor_parallel * 2
    while shape.memory_bytes and shape.memory_share is None and width <= _WIDEST:
        each = shape.memory_bytes * shape.tensor_parallel // width
        wider = replace(demand, shape=replace(shape, tensor_parallel=width, memory_bytes=each, memory_by_model=()))
        yield from _remedy(nodes, wider, f"tensor parallel {width}, about {gib(each)} on each GPU")
        width *= 2


def _opened(nodes: Sequence[NodeView], demand: Demand) -> Iterator[Remedy]:
    closed = [node for node in nodes if node.is_cordoned or node.is_draining]
    opened = (replace(node, is_cordoned=False, is_draining=False) for node in closed)
    for node in islice((each for each in opened if _may_help(each, demand)), _MOST_LOOKED_AT):
        others = [node if each.node_id == node.node_id else each for each in nodes]
        yield from _remedy(others, demand, f"uncordon {node.name}")


def _more_disk(nodes: Sequence[NodeView], demand: Demand) -> Iterator[Remedy]:
    """Old weights deleted, or another disk."""
    disks = Disks(nodes)
    missing = [(disks.missing_bytes(number, demand), node) for number, node in enumerate(nodes)]
    short = sorted((pair for pair in missing if pair[0]), key=lambda pair: (pair[0], pair[1].name))
    freed = ((replace(node, disk_free_bytes=(node.disk_free_bytes or 0) + lack), lack) for lack, node in short)
    for node, lack in islice((pair for pair in freed if _may_help(pair[0], demand)), _MOST_LOOKED_AT):
        others = [node if each.node_id == node.node_id else each for each in nodes]
        yield from _remedy(others, demand, f"free {gib(lack)} more of the disk of {node.name}")


def _without_one(nodes: Sequence[NodeView], demand: Demand) -> Iterator[Remedy]:
    """One replica less, the one that has least reserved; a move of more is what re-packing proposes."""
    pairs = [(node, occupant) for node in nodes for occupant in node.occupants]
    freed = ((_without(node, occupant), occupant) for node, occupant in sorted(pairs, key=_weight))
    for node, occupant in islice((pair for pair in freed if _may_help(pair[0], demand)), _MOST_LOOKED_AT):
        others = [node if each.node_id == node.node_id else each for each in nodes]
        found = list(_remedy(others, demand, f"move replica {occupant.replica_id} off {node.name}"))
        if found:
            yield found[0]
            return


def _without(node: NodeView, occupant: Occupant) -> NodeView:
    return replace(node, occupants=tuple(each for each in node.occupants if each is not occupant))


def _may_help(node: NodeView, demand: Demand) -> bool:
    """Whether it takes a stage by itself: asked of one node, which is quick."""
    stage = replace(demand, shape=replace(demand.shape, pipeline_parallel=1))
    return _try([node], stage) is not None


def _weight(pair: tuple[NodeView, Occupant]) -> tuple[int, int, str, int]:
    node, occupant = pair
    return len(occupant.keys), occupant.bytes_each, node.name, occupant.replica_id.int
