from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from apps.usage.policies import DatedPrice, cost_pico_usd, fits_hours, price_at, problem_of, usd_from_pico
from tests.factories.usage import make_record
from workers.contracts.snapshot import Price

pytestmark = pytest.mark.unit

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def test_a_sound_record_has_no_problem():
    assert problem_of(make_record()) is None


@pytest.mark.parametrize(
    "fault",
    [
        {"record_id": "not-a-uuid"},
        {"tenant_id": "gold"},
        {"arrived_at": 0.0},
        {"arrived_at": 1e18},
        {"arrived_at": float("nan")},
        {"total_ms": float("inf")},
        {"queue_ms": -1.0},
        {"sequence": -1},
        {"status": 70_000},
        {"input_tokens": -1},
        {"output_tokens": 10**16},
        {"input_tokens": 1, "cached_input_tokens": 2},
        {"cost_pico_usd": 2**63},
    ],
    ids=str,
)
def test_a_record_that_cannot_be_a_row_says_why(fault):
    assert problem_of(make_record(**fault))


def test_ids_of_what_was_never_reached_may_be_empty():
    assert problem_of(make_record(version_id="", endpoint_id="", user_id="")) is None


def test_cached_input_has_its_own_price():
    record = make_record(input_tokens=100, cached_input_tokens=40, output_tokens=10)
    price = Price(input_pico_usd=10, cached_input_pico_usd=1, output_pico_usd=100)
    assert cost_pico_usd(record, price) == 60 * 10 + 40 * 1 + 10 * 100


def test_picodollars_become_dollars_without_rounding():
    assert usd_from_pico(1) == Decimal("0.000000000001")
    assert usd_from_pico(123_456_789_012_345) == Decimal("123.456789012345")


def test_the_price_in_force_is_the_newest_that_has_begun():
    old, new = Price(input_pico_usd=1), Price(input_pico_usd=2)
    prices = [DatedPrice(NOON, new), DatedPrice(NOON - timedelta(days=1), old)]
    assert price_at(prices, NOON) == new
    assert price_at(prices, NOON - timedelta(seconds=1)) == old
    assert price_at(prices, NOON - timedelta(days=2)) == Price()


@pytest.mark.parametrize(
    ("zone", "fits"),
    [
        ("UTC", True),
        ("Europe/Berlin", True),
        ("Asia/Kolkata", False),
        ("Asia/Kathmandu", False),
        ("Australia/Adelaide", False),
    ],
)
def test_hours_add_up_to_days_only_in_zones_of_full_hours(zone, fits):
    assert fits_hours(NOON, NOON + timedelta(days=3), ZoneInfo(zone)) is fits


def test_a_range_that_begins_within_an_hour_does_not_fit():
    assert not fits_hours(NOON + timedelta(minutes=1), NOON + timedelta(days=1), None)
    assert fits_hours(NOON, NOON + timedelta(hours=5), None)


def test_a_zone_that_changes_by_half_an_hour_fits_only_outside_the_change():
    howe = ZoneInfo("Australia/Lord_Howe")  # +10:30, in summer +11:00
    summer = datetime(2026, 12, 1, 13, tzinfo=UTC)
    assert fits_hours(summer, summer + timedelta(days=2), howe)
    assert not fits_hours(datetime(2026, 3, 30, 13, tzinfo=UTC), datetime(2026, 4, 10, 13, tzinfo=UTC), howe)
