from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.usage.policies.pricing import (
    Book,
    Dated,
    ListPrice,
    Tariff,
    Tariffs,
    Timeline,
    pico_from_usd,
    rate,
    split_exactly,
    usd_from_pico,
)
from tests.factories.usage import make_record
from workers.contracts.pricing import WHOLE_E8, cost_pico_usd, discounted, price_for, share_e8
from workers.contracts.snapshot import Price, TenantPolicy, Version

pytestmark = pytest.mark.unit

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
VERSION, MODEL, TENANT = uuid4(), uuid4(), uuid4()
PRICE = Price(input_pico_usd=10, cached_input_pico_usd=1, output_pico_usd=100, request_pico_usd=7)


def book(**parts):
    return Book(model_of={VERSION: MODEL}, **parts)


def timeline(*values):
    """The last from noon on, each before it a day earlier."""
    return Timeline(Dated(NOON - timedelta(days=age), value) for age, value in enumerate(reversed(values)))


def test_cached_input_output_and_the_request_have_prices_of_their_own():
    cost = cost_pico_usd(PRICE, input_tokens=100, cached_input_tokens=40, output_tokens=10)
    assert cost == 60 * 10 + 40 * 1 + 10 * 100 + 7


def test_a_request_that_no_engine_worked_on_costs_nothing():
    assert cost_pico_usd(PRICE, input_tokens=0, cached_input_tokens=0, output_tokens=0, is_served=False) == 0


@given(
    tokens=st.integers(0, 10**9),
    batch_bp=st.integers(0, 10_000),
    tenant_bp=st.integers(0, 10_000),
    pico=st.integers(0, 10**9),
)
def test_discounts_multiply_and_the_whole_is_rounded_once_a_half_upwards(tokens, batch_bp, tenant_bp, pico):
    price = discounted(Price(output_pico_usd=pico), batch_bp, tenant_bp)
    exact = Fraction(tokens * pico) * (10_000 - batch_bp) * (10_000 - tenant_bp) / WHOLE_E8
    cost = cost_pico_usd(price, input_tokens=0, cached_input_tokens=0, output_tokens=tokens)
    assert cost == (exact + Fraction(1, 2)).__floor__()


def test_a_discount_of_nothing_changes_nothing_and_of_everything_is_free():
    assert share_e8() == WHOLE_E8
    free = discounted(PRICE, 10_000)
    assert cost_pico_usd(free, input_tokens=9, cached_input_tokens=0, output_tokens=9) == 0


def test_the_line_in_force_is_the_newest_that_has_begun():
    prices = timeline("old", "new")
    assert prices.at(NOON) == "new"
    assert prices.at(NOON - timedelta(microseconds=1)) == "old"
    assert prices.at(NOON - timedelta(days=2)) is None


def test_a_versions_own_price_goes_before_its_models():
    own, general = ListPrice(Price(input_pico_usd=1)), ListPrice(Price(input_pico_usd=2))
    both = book(by_version={VERSION: timeline(own)}, by_model={MODEL: timeline("older", general)})
    assert both.list_price(VERSION, NOON) == own
    assert both.list_price(VERSION, NOON - timedelta(hours=1)) == "older"
    assert both.list_price(uuid4(), NOON) is None


def test_a_discount_for_the_model_goes_before_the_general_one_even_when_it_is_nothing():
    discounts = {(TENANT, None): timeline(1000), (TENANT, MODEL): timeline(0)}
    assert book(discounts=discounts).discount_bp(TENANT, VERSION, NOON) == 0
    assert book(discounts={(TENANT, None): timeline(1000)}).discount_bp(TENANT, VERSION, NOON) == 1000
    assert book(discounts=discounts).discount_bp(uuid4(), VERSION, NOON) == 0


def test_the_batch_discount_is_for_the_batch_class_alone():
    half = book(by_version={VERSION: timeline(ListPrice(PRICE, batch_discount_bp=5000))})
    assert half.tariff(VERSION, TENANT, "gold", NOON).price == PRICE
    assert half.tariff(VERSION, TENANT, "batch", NOON).price == discounted(PRICE, 5000)


@given(
    batch_bp=st.integers(0, 10_000), tenant_bp=st.integers(0, 10_000), service_class=st.sampled_from(["gold", "batch"])
)
def test_the_gateway_and_the_book_charge_the_same(batch_bp, tenant_bp, service_class):
    tenant = TenantPolicy(
        tenant_id=str(TENANT), name="t", service_class=service_class, slo_profile="p", discounts_bp={"chat": tenant_bp}
    )
    version = Version(
        version_id=str(VERSION), model="chat", label="v1", served_name="s", price=PRICE, batch_discount_bp=batch_bp
    )
    ours = (
        book(
            by_version={VERSION: timeline(ListPrice(PRICE, batch_bp))}, discounts={(TENANT, MODEL): timeline(tenant_bp)}
        )
        .tariff(VERSION, TENANT, service_class, NOON)
        .price
    )
    theirs = price_for(version, tenant)
    used = {"input_tokens": 1234, "cached_input_tokens": 5, "output_tokens": 777}
    assert cost_pico_usd(ours, **used) == cost_pico_usd(theirs, **used)


@given(
    changes_h=st.lists(st.integers(0, 100), unique=True, max_size=6),
    asked=st.lists(st.tuples(st.integers(-5, 105), st.booleans(), st.booleans()), max_size=30),
)
def test_tariffs_that_are_remembered_are_those_of_the_book(changes_h, asked):
    def dated(values):
        return Timeline(Dated(NOON + timedelta(hours=hours), value) for hours, value in values)

    lines = [(hours, ListPrice(Price(input_pico_usd=hours), batch_discount_bp=hours)) for hours in changes_h[::2]]
    whole = book(
        by_version={VERSION: dated(lines)},
        discounts={(TENANT, None): dated((hours, hours) for hours in changes_h[1::2])},
    )
    tariffs = Tariffs(whole)
    for hours, is_batch, is_known in asked:
        at, service_class = NOON + timedelta(hours=hours), "batch" if is_batch else "gold"
        tenant = TENANT if is_known else None
        found = tariffs.of(str(VERSION), str(tenant or ""), service_class, at)
        assert found == whole.tariff(VERSION, tenant, service_class, at)


def test_a_record_without_a_price_keeps_what_the_gateway_counted_or_waits_for_one():
    assert rate(make_record(), None, 5).cost_pico_usd == 5
    assert not rate(make_record(), None, 5).is_unpriced
    assert rate(make_record(), None, 0).is_unpriced
    assert not rate(make_record(usage_source="none"), None, 0).is_unpriced


def test_the_book_decides_and_a_gateway_that_counted_otherwise_is_flagged():
    rating = rate(
        make_record(input_tokens=12, cached_input_tokens=4, output_tokens=7, wasted_tokens=3), Tariff(PRICE), 1
    )
    assert (rating.cost_pico_usd, rating.wasted_pico_usd, rating.is_mismatch) == (8 * 10 + 4 + 700 + 7, 300, True)


def test_picodollars_become_dollars_without_rounding_and_come_back():
    assert usd_from_pico(1) == Decimal("0.000000000001")
    assert pico_from_usd(usd_from_pico(123_456_789_012_345)) == 123_456_789_012_345


@given(whole=st.integers(0, 10**15), weights=st.lists(st.integers(0, 10**9), min_size=1, max_size=20))
def test_parts_add_up_to_the_whole_and_are_within_one_of_their_share(whole, weights):
    parts, total = split_exactly(whole, weights), sum(weights)
    assert sum(parts) == (whole if total else 0)
    assert all(
        abs(part - Fraction(whole * weight, total or 1)) <= 1 for part, weight in zip(parts, weights, strict=True)
    )
