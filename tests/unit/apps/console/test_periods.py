from datetime import UTC, date, datetime

import pytest

from apps.common.errors import InvalidInputError
from apps.console.policies.periods import period_for, zone_named

pytestmark = pytest.mark.unit

LATE_IN_UTC = datetime(2026, 11, 29, 23, 30, tzinfo=UTC)


def period(name="", first="", last="", zone="UTC"):
    return period_for(name=name, first=first, last=last, zone=zone_named(zone), now=LATE_IN_UTC)


def test_today_is_the_readers_today():
    assert period("today", zone="Asia/Tokyo").first_day == date(2026, 11, 30)
    assert period("today").first_day == date(2026, 11, 29)


def test_seven_days_end_with_today_and_start_at_midnight_of_the_zone():
    week = period("7d", zone="Europe/Berlin")
    assert len(week.days) == 7
    assert week.days[-1] == date(2026, 11, 30)
    assert week.start == datetime(2026, 11, 23, 23, 0, tzinfo=UTC)


def test_a_day_of_25_hours_counts_as_one():
    day = period(first="2026-10-25", last="2026-10-25", zone="Europe/Berlin")
    assert (day.end - day.start).total_seconds() == 25 * 3600


def test_the_period_before_ends_where_this_one_starts():
    week = period("7d")
    assert week.before.end == week.start
    assert len(week.before.days) == 7


def test_a_month_is_the_calendars_in_the_readers_zone():
    assert (period("month").first_day, period("month").last_day) == (date(2026, 11, 1), date(2026, 11, 29))
    last = period("last-month", zone="Asia/Tokyo")
    assert (last.first_day, last.last_day, last.label) == (date(2026, 10, 1), date(2026, 10, 31), "Last month")
    assert last.start == datetime(2026, 9, 30, 15, 0, tzinfo=UTC)


def test_an_unknown_name_falls_back_to_the_default():
    assert period("fortnight").name == "7d"


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "\x00", "Europe", "x" * 5000])
def test_a_zone_that_is_none_is_refused(zone):
    with pytest.raises(InvalidInputError):
        zone_named(zone)


@pytest.mark.parametrize("day", ["yesterday", "2026-02-30", "0001-01-01", "9999-12-31"])
def test_a_day_that_cannot_be_is_refused(day):
    with pytest.raises(InvalidInputError):
        period(first=day, last=day)
