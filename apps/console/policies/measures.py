"""Figures as people read them: a number, its unit, and the exact value behind it. Pure."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

UNKNOWN = "–"
_COMPACT_STEPS = ((10**12, "T"), (10**9, "G"), (10**6, "M"))
_BYTE_STEPS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


@dataclass(frozen=True)
class Measure:
    """`text` and `unit` are shown, `exact` appears on hover where the text is rounded."""

    text: str
    unit: str = ""
    exact: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.unit}".strip()


def _three_digits(value: float) -> str:
    decimals = 0 if abs(value) >= 100 or value == 0 else 1 if abs(value) >= 10 else 2  # noqa: PLR2004 - digits shown
    return f"{value:,.{decimals}f}"


def _count(value: float, unit: str = "") -> Measure:
    for size, suffix in _COMPACT_STEPS:
        if abs(value) >= size:
            return Measure(f"{_three_digits(value / size)} {suffix}", unit, f"{value:,.0f} {unit}".strip())
    return Measure(f"{value:,.0f}", unit)


def _milliseconds(value: float) -> Measure:
    if abs(value) < 1000:  # noqa: PLR2004 - below a second
        return Measure(f"{value:,.0f}", "ms")
    return Measure(_three_digits(value / 1000), "s", f"{value:,.0f} ms")


def _dollars(usd: float | Decimal) -> Measure:
    """Cents where cents say something, else three significant digits; the exact sum on hover."""
    sign = "-" if usd < 0 else ""
    size = abs(float(usd))
    decimals = 2 if size == 0 or size >= 0.1 else 2 - math.floor(math.log10(size))  # noqa: PLR2004 - ten cents
    return Measure(f"{sign}${abs(usd):,.{decimals}f}", "", f"{sign}${abs(usd):,.12f}")


def _price(usd: Decimal) -> Measure:
    """What is charged, to its last digit."""
    whole, _, rest = f"{abs(usd):,f}".partition(".")
    return Measure(f"{'-' if usd < 0 else ''}${whole}.{rest.rstrip('0'):0<2}")


def _billed(usd: Decimal) -> Measure:
    """As a statement on paper has it."""
    sign = "-" if usd < 0 else ""
    return Measure(f"{sign}${abs(usd):,.6f}", "", f"{sign}${abs(usd):,.12f}")


def _bytes(value: float) -> Measure:
    for size, suffix in _BYTE_STEPS:
        if value >= size:
            return Measure(_three_digits(value / size), suffix, f"{value:,.0f} bytes")
    return Measure(f"{value:,.0f}", "bytes")


def _hours(seconds: float | Decimal) -> Measure:
    return Measure(_three_digits(float(seconds) / 3600), "h", f"{seconds:,.6f} s")


def _seconds(value: float) -> Measure:
    return Measure(_three_digits(value), "s")


FORMATS: dict[str, Callable[[Any], Measure]] = {
    "count": _count,
    "whole": lambda value: Measure(f"{value:,}"),  # of tables that are added up
    "tokens": lambda value: _count(value, "token" if value == 1 else "tokens"),
    "requests": lambda value: _count(value, "request" if value == 1 else "requests"),
    "ms": _milliseconds,
    "s": _seconds,
    "hours": _hours,
    "usd": _dollars,
    "price": _price,
    "billed": _billed,
    "bytes": _bytes,
    "ratio": lambda value: Measure(_three_digits(float(value) * 100), "%"),
    "requests_per_s": lambda value: Measure(_three_digits(value), "req/s"),
    "tokens_per_s": lambda value: Measure(_three_digits(value), "tok/s"),
    "celsius": lambda value: Measure(f"{value:.0f}", "°C"),
    "watts": lambda value: Measure(f"{value:.0f}", "W"),
}


def measure(value: float | Decimal, unit: str) -> Measure:
    return FORMATS[unit](value)


def ago(age: timedelta) -> str:
    seconds = int(age.total_seconds())
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if abs(seconds) >= size:
            return f"{seconds // size} {name} ago" if seconds > 0 else f"in {-seconds // size} {name}"
    return "just now" if seconds < 5 else f"{seconds} s ago"  # noqa: PLR2004 - a blink
