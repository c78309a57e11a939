"""Quarters of an hour, of which the days and hours of every time zone consist. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

SLOT_MINUTES = 15
SLOT = timedelta(minutes=SLOT_MINUTES)
DAY = timedelta(days=1)


def slot_of(moment: datetime) -> datetime:
    utc = moment.astimezone(UTC)
    return utc.replace(minute=utc.minute - utc.minute % SLOT_MINUTES, second=0, microsecond=0)


def slot_after(moment: datetime) -> datetime:
    """The first slot that begins at `moment` or later."""
    begun = slot_of(moment)
    return begun if begun == moment else begun + SLOT


def start_of_hour(slot: datetime, zone: ZoneInfo) -> datetime:
    """Of the local hour in which a slot begins. Where clocks move by half an hour, that is not at a full one."""
    hour = _hour_and_offset(slot, zone)
    while _hour_and_offset(slot - SLOT, zone) == hour:
        slot -= SLOT
    return slot


def _hour_and_offset(moment: datetime, zone: ZoneInfo) -> tuple[int, timedelta | None]:
    local = moment.astimezone(zone)
    return local.hour, local.utcoffset()


def cut_by_slots(start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Parts of the stretch, none of which crosses the edge of a slot."""
    parts = []
    while start < end:
        until = min(slot_of(start) + SLOT, end)
        parts.append((start, until))
        start = until
    return parts


def whole_slots(start: datetime, end: datetime) -> tuple[datetime, datetime] | None:
    """The part of the range that consists of whole slots, or None where there is none."""
    first, last = slot_after(start), slot_of(end)
    return (first, last) if first < last else None


def whole_days(start: datetime, end: datetime) -> tuple[datetime, datetime] | None:
    """The part of the range that consists of whole UTC days, or None where there is none."""
    last = end.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = (start.astimezone(UTC) + DAY - timedelta(microseconds=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return (first, last) if first < last else None


def utc_days(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The stretch, cut at UTC midnights."""
    while start < end:
        midnight = start.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + DAY
        until = min(midnight, end)
        yield start, until
        start = until
