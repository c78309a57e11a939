"""A replica whose layers lie on several groups of GPUs, on one node where they fit, else on as few as possible."""

from collections.abc import Container
from dataclasses import dataclass, replace
from itertools import islice

from apps.placement.policies.board import Board
from apps.placement.policies.demand import Demand, Shape, Stage
from apps.placement.policies.fitting import Fit, Fits
from apps.placement.policies.objective import Prices
from apps.placement.policies.pricing import price_of_place


@dataclass(frozen=True, slots=True)
class _Part:
    """As many stages as one node takes, up to what was asked."""

    number: int
    stages: tuple[Stage, ...]
    usd_per_h: float

    @property
    def rank(self) -> tuple[int, float, int]:
        return -len(self.stages), round(self.usd_per_h / len(self.stages), 9), self.number


def fit_pipeline(board: Board, demand: Demand, closed: Container[int], fits: Fits, prices: Prices) -> tuple[Stage, ...]:
    """All stages on one GPU model: the slowest stage is the pace of all. () when it fits nowhere."""
    found = [_of_model(board, demand.shape, model, closed, fits) for model in _models(board, demand.shape)]
    places = [stages for stages in found if stages]
    return min(places, key=lambda stages: _rank(board, demand, stages, prices), default=())


def _rank(board: Board, demand: Demand, stages: tuple[Stage, ...], prices: Prices) -> tuple[float, int]:
    return round(price_of_place(board, demand, stages, prices), 9), board.numbers[stages[0].node_id]


def _models(board: Board, shape: Shape) -> list[str]:
    if shape.models:
        return sorted(shape.models)
    return sorted({each.model for state in board.kinds for each in state.view.accelerators if each.kind == shape.on})


def _of_model(board: Board, shape: Shape, model: str, closed: Container[int], fits: Fits) -> tuple[Stage, ...]:
    """The fewest nodes, each with as many stages as the others; among them the cheapest."""
    of_model = replace(shape, models=(model,))
    parts: list[_Part] = []
    for signature, numbers in board.alike.items():
        found = fits.pipeline(board.nodes[numbers[0]], signature, of_model)
        if found:
            free = islice((number for number in numbers if number not in closed), shape.pipeline_parallel)
            parts += [_part(board, number, found) for number in free]
    for per_node in _even_shares(shape):
        found_here = _first_parts(board, parts, per_node, shape.pipeline_parallel // per_node)
        if found_here:
            return found_here
    return ()


def _even_shares(shape: Shape) -> list[int]:
    """Stages on each node, the most first: an engine's parts are all of one size."""
    count = shape.pipeline_parallel
    return [each for each in range(count, 0, -1) if count % each == 0 and (shape.may_span or each == count)]


def _first_parts(board: Board, parts: list[_Part], per_node: int, count: int) -> tuple[Stage, ...]:
    doing = [
        part
        for part in sorted(parts, key=lambda part: part.rank)
        if len(part.stages) >= per_node and (count == 1 or board.nodes[part.number].view.is_reachable)
    ]
    chosen = doing[:count] if len(doing) >= count else []
    return tuple(stage for part in chosen for stage in part.stages[:per_node])


def _part(board: Board, number: int, found: tuple[Fit, ...]) -> _Part:
    stages = tuple(board.stage(number, fit.indexes) for fit in found)
    return _Part(number, stages, sum(fit.usd_per_h for fit in found))
