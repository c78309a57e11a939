from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.usage.policies.slots import SLOT, cut_by_slots, slot_after, slot_of, whole_slots

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
