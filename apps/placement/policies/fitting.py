"""The cheapest place for one stage on one node."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from apps.placement.policies.board import NodeState, Signature
from apps.placement.policies.demand import Shape
from apps.placement.policies.fleet import NodeView
from apps.placement.policies.objective import Prices
from apps.placement.policies.pricing import occupy, price_of_group, used_islands
from apps.placement.policies.reasons import is_usable, reason_against_kind, reason_against_node

Mark = TypeVar("Mark", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Fit:
    """`indexes` into the node's accelerators; `leftover` decides among fits that cost the same: less is better."""

    indexes: tuple[int, ...]
    usd_per_h: float
    leftover: int


def eligible_indexes(node: NodeView, shape: Shape) -> list[int]:
    """Those that would do if they were free."""
    if reason_against_node(node, shape):
        return []
    return [index for index, each in enumerate(node.accelerators) if not reason_against_kind(each, shape)]


def fit_stage(state: NodeState, eligible: Sequence[int], shape: Shape, prices: Prices) -> Fit | None:
    """On `eligible` accelerators, as far as they are free."""
    usable = [index for index in eligible if is_usable(state, index, shape)]
    if len(usable) < shape.tensor_parallel:
        return None
    groups = _groups(state, usable, shape)
    fits = [_priced(state, group, shape, prices) for group in groups]
    return min(fits, key=lambda fit: (round(fit.usd_per_h, 9), fit.leftover, fit.indexes), default=None)


def _groups(state: NodeState, usable: Sequence[int], shape: Shape) -> Iterator[tuple[int, ...]]:
    """One of each kind is priced, the cheapest taken. Several are alike: the slowest would be the pace of all."""
    ordered = sorted(usable, key=lambda index: _preference(state, index))
    if shape.tensor_parallel == 1:
        yield from ((index,) for index in _first_of_each_kind(state, ordered))
        return
    for members in alike(state.view, ordered):
        if len(members) >= shape.tensor_parallel:
            yield from _groups_of_alike(state, members, shape)


def alike(node: NodeView, indexes: Sequence[int]) -> list[list[int]]:
    """Accelerators of one model and size."""
    return list(_split(indexes, [(each.model, each.memory_bytes) for each in node.accelerators]).values())


def _groups_of_alike(state: NodeState, ordered: Sequence[int], shape: Shape) -> Iterator[tuple[int, ...]]:
    """Inside an island, and there inside a NUMA node, before across."""
    size = shape.tensor_parallel
    by_island = _split(ordered, [each.island for each in state.view.accelerators])
    for island, members in by_island.items():
        if island is not None and len(members) >= size:
            yield from _inside(state, members, size)
    if not shape.needs_nvlink:
        yield from _inside(state, ordered, size)
        largest_first = sorted(by_island.values(), key=len, reverse=True)
        yield tuple(sorted([index for members in largest_first for index in members][:size]))


def _inside(state: NodeState, members: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    yield tuple(sorted(members[:size]))
    by_numa = _split(members, [each.numa for each in state.view.accelerators])
    yield from (tuple(sorted(local[:size])) for local in by_numa.values() if len(local) >= size)


def _split(indexes: Sequence[int], marks: Sequence[Mark]) -> dict[Mark, list[int]]:
    parts: dict[Mark, list[int]] = {}
    for index in indexes:
        parts.setdefault(marks[index], []).append(index)
    return parts


def _preference(state: NodeState, index: int) -> tuple[float, int, int]:
    """What is in use already costs nothing more; then the cheaper, then the tighter fit."""
    price = 0.0 if state.users[index] else state.view.accelerators[index].usd_per_h
    return price, state.free[index], index


def _first_of_each_kind(state: NodeState, ordered: Sequence[int]) -> list[int]:
    """Of those that are alike for one replica, the first: a node's eight idle GPUs are one question, not eight."""
    seen: dict[tuple[object, ...], int] = {}
    used = used_islands(state)
    for index in ordered:
        accelerator = state.view.accelerators[index]
        key = (
            accelerator.usd_per_h, state.free[index], bool(state.users[index]), accelerator.memory_bytes,
            accelerator.island if accelerator.island in used else accelerator.island is None,
        )  # fmt: skip
        seen.setdefault(key, index)
    return list(seen.values())


def _priced(state: NodeState, group: tuple[int, ...], shape: Shape, prices: Prices) -> Fit:
    accelerators = state.view.accelerators
    leftover = sum(state.free[index] - shape.reserved_bytes(accelerators[index]) for index in group)
    return Fit(group, price_of_group(state, group, prices), leftover)


class Fits:
    """Answers once for nodes that are alike. What is eligible depends on a node's kind only."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._eligible: dict[Shape, dict[int, list[int]]] = {}
        self._stages: dict[Shape, dict[Signature, Fit | None]] = {}
        self._pipelines: dict[Shape, dict[Signature, tuple[Fit, ...]]] = {}

    def stages_of(self, shape: Shape) -> dict[Signature, Fit | None]:
        """The answers so far, to be asked directly where speed matters."""
        return self._stages.setdefault(shape, {})

    def stage(self, state: NodeState, signature: Signature, shape: Shape) -> Fit | None:
        known = self.stages_of(shape)
        if signature not in known:
            known[signature] = fit_stage(state, self.eligible(state, shape), shape, self._prices)
        return known[signature]

    def pipeline(self, state: NodeState, signature: Signature, shape: Shape) -> tuple[Fit, ...]:
        """As many stages as the node takes, up to what the shape asks for."""
        known = self._pipelines.setdefault(shape, {})
        if signature not in known:
            known[signature] = fit_stages(state, self.eligible(state, shape), shape, self._prices)
        return known[signature]

    def eligible(self, state: NodeState, shape: Shape) -> list[int]:
        known = self._eligible.setdefault(shape, {})
        if state.kind_id not in known:
            known[state.kind_id] = eligible_indexes(state.view, shape)
        return known[state.kind_id]


def fit_stages(state: NodeState, eligible: Sequence[int], shape: Shape, prices: Prices) -> tuple[Fit, ...]:
    """The node is used as a notepad and left as it was. No two stages share a GPU, whatever else may."""
    taken: list[Fit] = []
    left = list(eligible)
    while len(taken) < shape.pipeline_parallel and (fit := fit_stage(state, left, shape, prices)):
        taken.append(fit)
        left = [index for index in left if index not in fit.indexes]
        occupy(state, shape, fit.indexes, 1)
    for fit in taken:
        occupy(state, shape, fit.indexes, -1)
    return tuple(taken)
