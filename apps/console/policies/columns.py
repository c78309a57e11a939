"""A column per day, stacked by model: geometry in percent of the chart, so that a template can draw it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

FULL = 100.0
GAP_SHARE = 0.3
REST = "other models"
SHOWN_SERIES = 3


@dataclass(frozen=True)
class Block:
    series: int
    name: str
    value: Decimal
    y: float
    height: float


@dataclass(frozen=True)
class Column:
    day: date
    x: float
    width: float
    total: Decimal
    blocks: list[Block]


@dataclass(frozen=True)
class Chart:
    columns: list[Column]
    names: list[str]
    top: Decimal


def stack_by_day(days: Sequence[date], values: dict[tuple[date, str], Decimal]) -> Chart:
    """`values` are by day and name. The biggest names get a series each, the others share the last.

    What cost nothing, as a refused request without a model, gets none.
    """
    names = _series_of(values)
    totals = {day: sum((value for (at, _), value in values.items() if at == day), Decimal()) for day in days}
    top = max(totals.values(), default=Decimal())
    step = FULL / max(1, len(days))
    columns = [
        Column(
            day=day,
            x=index * step + step * GAP_SHARE / 2,
            width=step * (1 - GAP_SHARE),
            total=totals[day],
            blocks=_blocks(day, values, names, top),
        )
        for index, day in enumerate(days)
    ]
    return Chart(columns, names, top)


def _series_of(values: dict[tuple[date, str], Decimal]) -> list[str]:
    sums: dict[str, Decimal] = {}
    for (_, name), value in values.items():
        sums[name] = sums.get(name, Decimal()) + value
    ranked = sorted((name for name in sums if sums[name]), key=lambda name: (-sums[name], name))
    return ranked if len(ranked) <= SHOWN_SERIES else [*ranked[: SHOWN_SERIES - 1], REST]


def _blocks(day: date, values: dict[tuple[date, str], Decimal], names: list[str], top: Decimal) -> list[Block]:
    blocks, filled = [], 0.0
    for series, name in enumerate(names, start=1):
        value = _value_of(day, name, values, names)
        height = float(value / top) * FULL if top else 0.0
        filled += height
        if value:
            blocks.append(Block(series, name, value, FULL - filled, height))
    return blocks


def _value_of(day: date, name: str, values: dict[tuple[date, str], Decimal], names: list[str]) -> Decimal:
    if name != REST:
        return values.get((day, name), Decimal())
    return sum((value for (at, other), value in values.items() if at == day and other not in names), Decimal())
