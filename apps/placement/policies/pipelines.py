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
    """The fewest nodes: those that take most stages first, among them the cheapest."""
    of_model = replace(shape, models=(model,))
    parts: list[_Part] = []
    for signature, numbers in board.alike.items():
        found = fits.pipeline(board.nodes[numbers[0]], signature, of_model)
        if found:
            free = islice((number for number in numbers if number not in closed), shape.pipeline_parallel)
            parts += [_part(board, number, found) for number in free]
    if not shape.may_span:
        parts = [part for part in parts if len(part.stages) == shape.pipeline_parallel]
    chosen = islice(
        (stage for part in sorted(parts, key=lambda part: part.rank) for stage in part.stages), shape.pipeline_parallel
    )
    stages = tuple(chosen)
    return stages if len(stages) == shape.pipeline_parallel else ()


def _part(board: Board, number: int, found: tuple[Fit, ...]) -> _Part:
    stages = tuple(board.stage(number, fit.indexes) for fit in found)
    return _Part(number, stages, sum(fit.usd_per_h for fit in found))
