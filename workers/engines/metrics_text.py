"""Reads Prometheus' text format, as far as engines use it."""

import math
from collections.abc import Iterable, Iterator

_MOST = 2**53


def sum_by_name(text: str, names: Iterable[str]) -> dict[str, float]:
    """Samples of the named metrics, summed over their labels. A name without samples, or with NaN, is absent."""
    text = "\n" + text
    totals: dict[str, float] = {}
    for name in names:
        values = [value for line in _lines_of(text, f"\n{name}") if (value := _value(line)) is not None]
        if values and math.isfinite(total := sum(values)):
            totals[name] = total
    return totals


def _lines_of(text: str, start: str) -> Iterator[str]:
    """Found by search: of the thousand lines of an engine five are wanted, several times a second."""
    at = text.find(start)
    while at >= 0:
        end = text.find("\n", at + 1)
        line = text[at + 1 : end if end >= 0 else len(text)]
        if line[len(start) - 1 : len(start)] in ("{", " "):
            yield line
        at = text.find(start, at + 1)


def _value(line: str) -> float | None:
    rest = line.rpartition("}")[2] if "}" in line else line.partition(" ")[2]
    try:
        value = float(rest.split()[0])
    except (ValueError, IndexError):
        return None
    return value if math.isfinite(value) else None


def as_count(value: float | None) -> int | None:
    """What nothing can have counted to is nonsense, and could be told to nobody in 64 bits."""
    return None if value is None or abs(value) > _MOST else int(value)
