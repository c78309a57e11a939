"""Reads Prometheus' text format, as far as engines use it."""

import math
from collections.abc import Iterable


def sum_by_name(text: str, names: Iterable[str]) -> dict[str, float]:
    """Samples of the named metrics, summed over their labels. A name without samples, or with NaN, is absent."""
    wanted = frozenset(names)
    totals: dict[str, float] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in wanted:
            value = _value(line)
            if value is not None:
                totals[name] = totals.get(name, 0.0) + value
    return totals


def _value(line: str) -> float | None:
    rest = line.rpartition("}")[2] if "}" in line else line.partition(" ")[2]
    try:
        value = float(rest.split()[0])
    except (ValueError, IndexError):
        return None
    return value if math.isfinite(value) else None


def as_count(value: float | None) -> int | None:
    return None if value is None else int(value)
