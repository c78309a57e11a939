from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from workers.contracts.limit_periods import FOREVER, period_at

pytestmark = pytest.mark.unit

HOUR_S = 3600


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("zone", "moment", "name", "hours"),
    [
        ("UTC", "2026-11-29T23:59:59", "2026-11-29", 24),
        ("Europe/Berlin", "2026-03-29T10:00:00", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25T10:00:00", "2026-10-25", 25),
        ("Asia/Kathmandu", "2026-11-29T18:14:59", "2026-11-29", 24),
        ("Asia/Kathmandu", "2026-11-29T18:15:00", "2026-11-30", 24),
        ("Africa/Cairo", "2026-04-24T10:00:00", "2026-04-24", 23),
        ("America/Havana", "2026-11-01T04:30:00", "2026-11-01", 25),
    ],
)
def test_a_day_is_as_long_as_its_clocks_make_it(zone, moment, name, hours):
    period = period_at("tokens_per_day", ZoneInfo(zone), at(moment))
    assert period.name == f"{name}@{zone}"
    assert (period.end - period.start) / HOUR_S == hours
    assert period.start <= at(moment) < period.end


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Havana", "Pacific/Apia", "Africa/Cairo"])
def test_days_follow_each_other_without_gap_or_overlap(zone):
    period = period_at("tokens_per_day", ZoneInfo(zone), at("2026-01-01T12:00:00"))
    for _ in range(366):
        following = period_at("tokens_per_day", ZoneInfo(zone), period.end)
        assert following.start == period.end
        assert following.name != period.name
        period = following


def test_a_month_ends_with_its_last_day_also_in_december():
    period = period_at("cost_per_month", ZoneInfo("Europe/Berlin"), at("2026-12-31T22:59:59"))
    assert (period.name, period.end) == ("2026-12@Europe/Berlin", at("2026-12-31T23:00:00"))


def test_a_total_has_no_end():
    assert period_at("cost_total", ZoneInfo("UTC"), 0) is FOREVER
