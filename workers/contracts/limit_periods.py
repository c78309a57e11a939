"""Days and months of limits, in a tenant's time zone; the same for gateways and control plane."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from workers.contracts.limits import SPANS, Period, Span

FOREVER = Period("total", 0.0, float("inf"))
_MINUTE = Period("", 0.0, float("inf"))


def period_at(kind: str, zone: ZoneInfo, unix_time: float) -> Period:
    """Of a kind that has none, the same for ever."""
    span = SPANS.get(kind)
    if span is None:
        return _MINUTE
    if span == "total":
        return FOREVER
    local = datetime.fromtimestamp(unix_time, zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    start = local if span == "day" else local.replace(day=1)
    name = f"{start:%Y-%m-%d}" if span == "day" else f"{start:%Y-%m}"
    return Period(f"{name}@{zone.key}", start.timestamp(), _next_start(start, span).timestamp())


def _next_start(start: datetime, span: Span) -> datetime:
    """Midnights are wall-clock times, so a day may have 23 or 25 hours."""
    if span == "day":
        return start + timedelta(days=1)
    return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
