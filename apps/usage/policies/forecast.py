"""Where a month's spend will end, and which thresholds that reaches. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from zoneinfo import ZoneInfo

RECENT = timedelta(days=7)
_PICO = Decimal("1e-12")


@dataclass(frozen=True)
class Month:
    """A calendar month of a zone, as instants: `start` ≤ t < `end`."""

    first_day: date
    start: datetime
    end: datetime


def month_of(moment: datetime, zone: ZoneInfo) -> Month:
    first = moment.astimezone(zone).date().replace(day=1)
    return Month(first, _midnight(first, zone), _midnight(first_of_next(first), zone))


def first_of_next(first: date) -> date:
    return (first + timedelta(days=32)).replace(day=1)


def months_between(start: datetime, end: datetime, zone: ZoneInfo) -> list[Month]:
    """Those that have a moment with `start` ≤ t < `end`, the oldest first."""
    found = [month_of(start, zone)]
    while found[-1].end < end:
        found.append(month_of(found[-1].end, zone))
    return found


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC)


def forecast_usd(*, spent_usd: Decimal, recent_usd: Decimal, now: datetime, month: Month) -> Decimal:
    """What is spent, and for the rest of the month as much a second as over the last seven days."""
    left = max(month.end - now, timedelta())
    more = recent_usd * Decimal(left // timedelta(seconds=1)) / Decimal(RECENT // timedelta(seconds=1))
    return (spent_usd + more).quantize(_PICO, ROUND_HALF_UP)


@dataclass(frozen=True)
class Reached:
    threshold_percent: int
    is_forecast: bool


def reached(
    thresholds_percent: Iterable[int], *, amount_usd: Decimal, spent_usd: Decimal, expected_usd: Decimal
) -> list[Reached]:
    """By the spend where it is there already, by the forecast where it is not yet."""
    found = []
    for percent in sorted(thresholds_percent):
        limit = amount_usd * percent / 100
        if spent_usd >= limit:
            found.append(Reached(percent, is_forecast=False))
        elif expected_usd >= limit:
            found.append(Reached(percent, is_forecast=True))
    return found
