from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.usage.policies.slots import SLOT, cut_by_slots, slot_after, slot_of, start_of_hour, whole_slots

pytestmark = pytest.mark.unit

MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone
ZONES = st.sampled_from(sorted(available_timezones() - {"localtime", "Factory"}))


@given(MOMENTS, ZONES)
def test_a_day_of_any_zone_begins_with_a_slot(moment, zone):
    local = moment.astimezone(ZoneInfo(zone)).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    midnight = local.astimezone(UTC)
    assert slot_of(midnight) == midnight


@given(MOMENTS)
def test_a_moment_lies_in_its_slot(moment):
    assert slot_of(moment) <= moment < slot_of(moment) + SLOT
    assert slot_after(moment) - SLOT < moment <= slot_after(moment)


@given(MOMENTS, st.timedeltas(timedelta(0), timedelta(hours=5)))
def test_a_stretch_is_cut_into_parts_that_lie_in_one_slot_each_and_make_it_up(start, length):
    parts = cut_by_slots(start, start + length)
    assert sum((end - begin for begin, end in parts), timedelta()) == length
    assert all(slot_of(begin) == slot_of(end - timedelta(microseconds=1)) for begin, end in parts)


def test_a_range_within_one_slot_holds_no_whole_one():
    noon = datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert whole_slots(noon + timedelta(seconds=1), noon + timedelta(minutes=29)) is None
    assert whole_slots(noon, noon + timedelta(minutes=31)) == (noon, noon + timedelta(minutes=30))


@pytest.mark.parametrize(
    ("slot", "start"),
    [
        ("2026-10-03T15:15:00+00:00", "2026-10-04T01:00:00+10:30"),
        ("2026-10-03T15:45:00+00:00", "2026-10-04T02:30:00+11:00"),  # 02:00 to 02:30 is left out
        ("2026-10-03T16:00:00+00:00", "2026-10-04T03:00:00+11:00"),
        ("2026-04-04T14:45:00+00:00", "2026-04-05T01:00:00+11:00"),
        ("2026-04-04T15:15:00+00:00", "2026-04-05T01:30:00+10:30"),  # 01:30 to 02:00 comes twice
        ("2026-04-04T15:30:00+00:00", "2026-04-05T02:00:00+10:30"),
    ],
)
def test_an_hour_begins_where_clocks_that_move_by_half_an_hour_let_it(slot, start):
    zone = ZoneInfo("Australia/Lord_Howe")
    assert start_of_hour(datetime.fromisoformat(slot), zone).astimezone(zone).isoformat() == start


@pytest.mark.parametrize("name", ["UTC", "Asia/Kathmandu", "Pacific/Noumea", "America/St_Johns", "Europe/Berlin"])
def test_every_slot_is_in_an_hour_that_begins_with_its_hour_and_is_one_hour_long(name):
    zone, start = ZoneInfo(name), datetime(2026, 3, 1, tzinfo=UTC)
    slots = [start + number * SLOT for number in range(96 * 31)]
    hours = [start_of_hour(slot, zone) for slot in slots]
    assert all(hour.astimezone(zone).minute == 0 for hour in hours)
    assert all(timedelta() <= slot - hour < timedelta(hours=1) for slot, hour in zip(slots, hours, strict=True))
