"""What would make a replica fit: every answer was tried on the fleet as it is, with the very figures that it names."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import ceil, floor
from typing import Any

from apps.placement.policies.board import Board
from apps.placement.policies.demand import Assignment, Demand, Shape
from apps.placement.policies.fleet import CPU, MIG, AcceleratorView, NodeView
from apps.placement.policies.objective import GIB
from apps.placement.policies.planning import Planner
from apps.placement.policies.reasons import gib

_WIDEST = 8
_SEARCH_STEPS = 24
_TENTHS = 10
# Of answers of one kind: the whole fleet is asked for each, which takes as long each time.
MOST_TRIED = 8
# What a replica needs at a width, None where the model cannot be divided so.
Widened = Callable[[int], Demand | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """`change` says what to do; `node_names` where the replica would then be."""

    change: str
    node_names: tuple[str, ...]


def place_of(nodes: Sequence[NodeView], demand: Demand) -> Assignment | None:
    return Planner(Board(nodes, [demand.shape])).find(demand)


def tried(nodes: Sequence[NodeView], demand: Demand, change: str) -> Iterator[Remedy]:
    found = place_of(nodes, demand)
    if found is not None:
        names = {node.node_id: node.name for node in nodes}
        yield Remedy(change=change, node_names=tuple(names[node_id] for node_id in found.node_ids))


def asking_less(nodes: Sequence[NodeView], demand: Demand, widened: Widened) -> Iterator[Remedy]:
    """What the deployment could ask for instead; the cheapest kinds first."""
    yield from _relaxed(nodes, demand)
    yield from _at_a_figure(nodes, demand)
    yield from _less_memory(nodes, demand)
    yield from _other_share(nodes, demand)
    yield from _wider(nodes, demand, widened)


def _relaxed(nodes: Sequence[NodeView], demand: Demand) -> Iterator[Remedy]:
    for change, relaxed in conditions_less(demand, 1):
        yield from tried(nodes, relaxed, change)


def conditions_less(demand: Demand, count: int) -> Iterator[tuple[str, Demand]]:
    """What it asks of places beside their size, all sets of so many of its conditions."""
    for chosen in combinations(_conditions(demand), count):
        relaxed = demand
        for _, relax in chosen:
            relaxed = relax(relaxed)
        yield " and ".join(change for change, _ in chosen), relaxed


def _conditions(demand: Demand) -> list[tuple[str, Callable[[Demand], Demand]]]:
    shape = demand.shape
    spans_slices = shape.on == MIG and shape.accelerator_count > 1
    known: list[tuple[object, str, Callable[[Demand], Demand]]] = [
        (spans_slices, "ask for one MIG slice", _with(tensor_parallel=1, pipeline_parallel=1)),
        (shape.labels, "drop the node labels asked for", _with(labels=())),
        (shape.profile, "allow other MIG profiles", _with(profile="")),
        (shape.apart, "allow replicas of the deployment side by side", _with(apart="")),
        (shape.needs_nvlink, "allow tensor parallel over PCIe", _with(needs_nvlink=False)),
        (shape.is_exclusive, "share GPUs with other replicas", _with(is_exclusive=False)),
        (demand.avoids, "allow it beside the deployments it avoids", lambda each: replace(each, avoids=())),
    ]
    return [(change, relax) for is_set, change, relax in known if is_set]


def _with(**fields: Any) -> Callable[[Demand], Demand]:
    return lambda demand: replace(demand, shape=replace(demand.shape, **fields))


def _at_a_figure(nodes: Sequence[NodeView], demand: Demand) -> Iterator[Remedy]:
    """Without the condition it is seen what it would get; then that is what is named, and tried."""
    shape = demand.shape
    if shape.models and (gpu := _first_of(nodes, replace(demand, shape=replace(shape, models=())))):
        allowing = replace(demand, shape=replace(shape, models=(*shape.models, gpu.model)))
        yield from tried(nodes, allowing, f"allow {gpu.model or 'GPUs of unknown model'}, too")
    dearer = replace(demand, shape=replace(shape, max_usd_per_h=None))
    if shape.max_usd_per_h is not None and (gpu := _first_of(nodes, dearer)):
        usd = ceil(gpu.usd_per_h * 100) / 100
        paying = replace(demand, shape=replace(shape, max_usd_per_h=usd))
        yield from tried(nodes, paying, f"allow {usd:.2f} USD/h for each GPU instead of {shape.max_usd_per_h:.2f}")


def _first_of(nodes: Sequence[NodeView], demand: Demand) -> AcceleratorView | None:
    """The dearest of those it would be on, if there is a place."""
    found = place_of(nodes, demand)
    places = {(stage.node_id, key) for stage in found.stages for key in stage.keys} if found else set()
    there = [each for node in nodes for each in node.accelerators if (node.node_id, each.key) in places]
    return max(there, key=lambda each: each.usd_per_h, default=None)


def _less_memory(nodes: Sequence[NodeView], demand: Demand) -> Iterator[Remedy]:
    """The most memory with which it would fit, by halving the interval, to the tenth of a GiB below."""
    shape = demand.shape
    needed = max([shape.memory_bytes or 0, *(each for _, each in shape.memory_by_model)])
    high = (needed or _largest_bytes(nodes)) * _TENTHS // GIB
    if shape.on == CPU and not needed:
        return
    low = 0
    for _ in range(_SEARCH_STEPS if high else 0):
        middle = (low + high) // 2
        low, high = (middle, high) if place_of(nodes, _with_memory(demand, _tenths(middle))) else (low, middle)
    if low:
        least = gib(_tenths(low))
        instead = f" instead of {gib(needed)} (shorter context, quantised weights)" if needed else ", and say so"
        words = f"need at most {least} on each {'node' if shape.on == CPU else 'GPU'}{instead}"
        yield from tried(nodes, _with_memory(demand, _tenths(low)), words)


def _tenths(count: int) -> int:
    return count * GIB // _TENTHS


def _largest_bytes(nodes: Sequence[NodeView]) -> int:
    return max((each.memory_bytes or 0 for node in nodes for each in node.accelerators), default=0)


def _with_memory(demand: Demand, memory_bytes: int) -> Demand:
    """As `memory_gib` of a deployment does: its share stays what it is."""
    return replace(demand, shape=replace(demand.shape, memory_bytes=memory_bytes, memory_by_model=()))


def _other_share(nodes: Sequence[NodeView], demand: Demand) -> Iterator[Remedy]:
    """What is free somewhere, as a share in whole per cent; or what its need takes there."""
    share = demand.shape.memory_share
    if share is None:
        return
    figures = {each for node in nodes for gpu in node.accelerators for each in _shares_on(node, gpu, demand.shape)}
    for each in sorted(figures - {0.0, share}, key=lambda other: abs(other - share))[:MOST_TRIED]:
        other = replace(demand, shape=replace(demand.shape, memory_share=each))
        found = list(tried(nodes, other, f"give it {each:.0%} of each GPU's memory instead of {share:.0%}"))
        if found:
            yield found[0]
            return


def _shares_on(node: NodeView, gpu: AcceleratorView, shape: Shape) -> Iterator[float]:
    if gpu.kind == shape.on and gpu.memory_bytes:
        reserved = sum(each.bytes_each for each in node.occupants if gpu.key in each.keys)
        yield max(0, floor(100 * (gpu.memory_bytes - gpu.foreign_bytes - reserved) / gpu.memory_bytes)) / 100
        yield min(100, ceil(100 * (shape.needed_bytes(gpu) or 0) / gpu.memory_bytes)) / 100


def scaled(demand: Demand) -> Widened:
    """Where nothing but its need is known: over more GPUs each holds less."""

    def at(width: int) -> Demand | None:
        shape = demand.shape
        each = (shape.memory_bytes or 0) * shape.tensor_parallel // width
        return replace(demand, shape=replace(shape, tensor_parallel=width, memory_bytes=each, memory_by_model=()))

    return at


def _wider(nodes: Sequence[NodeView], demand: Demand, widened: Widened) -> Iterator[Remedy]:
    shape = demand.shape
    if not shape.memory_bytes or shape.memory_share is not None or shape.on == CPU:
        return
    widths: Iterable[int] = (shape.tensor_parallel * 2**power for power in range(1, 4))
    wider = ((width, widened(width)) for width in widths if width <= _WIDEST)
    for width, other in islice(wider, MOST_TRIED):
        if other is not None:
            each = gib(other.shape.memory_bytes or 0)
            yield from tried(nodes, other, f"tensor parallel {width}, about {each} on each GPU")
