"""The stretch of time a page is about, in the reader's time zone. Pure."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from apps.common.errors import InvalidInputError

DAYS_OF = {"today": 1, "7d": 7, "30d": 30, "90d": 90}
LABELS = {
    "today": "Today",
    "7d": "7 days",
    "30d": "30 days",
    "90d": "90 days",
    "month": "This month",
    "last-month": "Last month",
}
DEFAULT = "7d"
EARLIEST = date(2020, 1, 1)
LATEST = date(2199, 12, 31)
COMMON_ZONES = (
    "UTC",
    "America/Los_Angeles",
    "America/New_York",
    "America/Sao_Paulo",
    "Europe/London",
    "Europe/Berlin",
    "Africa/Nairobi",
    "Asia/Dubai",
    "Asia/Kolkata",
    "Asia/Singapore",
    "Asia/Tokyo",
    "Australia/Sydney",
)


@dataclass(frozen=True)
class Period:
    """Whole days of `zone`: `start` ≤ t < `end`. `name` is how the URL says it, or empty for a range by dates."""

    name: str
    zone: ZoneInfo
    first_day: date
    last_day: date

    @property
    def start(self) -> datetime:
        return _midnight(self.first_day, self.zone)

    @property
    def end(self) -> datetime:
        return _midnight(self.last_day + timedelta(days=1), self.zone)

    @property
    def days(self) -> list[date]:
        return [self.first_day + timedelta(days=day) for day in range((self.last_day - self.first_day).days + 1)]

    @property
    def before(self) -> "Period":
        """As many days, up to the first: what this one is compared with."""
        length = timedelta(days=len(self.days))
        return Period("", self.zone, self.first_day - length, self.last_day - length)

    @property
    def label(self) -> str:
        return LABELS.get(self.name) or f"{self.first_day:%-d %b} – {self.last_day:%-d %b %Y}"


def zone_named(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (OSError, ValueError, KeyError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise InvalidInputError(f"there is no time zone {name!r}", fields={"tz": "is not a time zone"}) from error


def period_for(*, name: str, first: str, last: str, zone: ZoneInfo, now: datetime) -> Period:
    """By dates where both are given, else by name."""
    today = now.astimezone(zone).date()
    if first and last:
        return Period("", zone, _day(first), _day(last))
    if name == "month":
        return Period(name, zone, today.replace(day=1), today)
    if name == "last-month":
        last_day = today.replace(day=1) - timedelta(days=1)
        return Period(name, zone, last_day.replace(day=1), last_day)
    chosen = name if name in DAYS_OF else DEFAULT
    return Period(chosen, zone, today - timedelta(days=DAYS_OF[chosen] - 1), today)


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is not a date like 2026-01-31") from error
    if not EARLIEST <= day <= LATEST:
        raise InvalidInputError(f"a day lies between {EARLIEST} and {LATEST}")
    return day


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC)
