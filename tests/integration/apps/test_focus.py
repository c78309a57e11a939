"""Charges for FinOps tools: each row as FOCUS 1.2 wants it, unit prices exact, and together the sum of the records."""

import csv
import io
from collections import defaultdict
from datetime import timedelta
from decimal import Decimal

import pyarrow.parquet as pq
import pytest

from apps.common.actors import SYSTEM
from apps.usage.models import UsageDay, UsageRecord
from apps.usage.selectors.reports import scope_for, sum_usage
from apps.usage.services.prices import set_discount, set_price
from apps.usage.services.rating import price_unpriced
from apps.usage.services.rerating import apply_rerating, run_reratings, start_rerating
from tests.factories.domain import NOW, make_node, make_version
from tests.factories.usage import ARRIVED_AT_S, ingest_records, make_record
from tests.support.focus_rules import broken_rules
from workers.contracts.snapshot import Price

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

HOUR_S = 3600
DAY = timedelta(days=1)
MONTH = "start=2026-11-01T00:00:00Z&end=2026-12-01T00:00:00Z"
CHEAP = Price(input_pico_usd=150_001, cached_input_pico_usd=75_000, output_pico_usd=600_007, request_pico_usd=1_000_003)
DEAR = Price(input_pico_usd=250_000, cached_input_pico_usd=50_000, output_pico_usd=900_001)


@pytest.fixture
def version(db, valkey):
    """Its price changes at ten on the day of the records."""
    version = make_version()
    for price, since in ((CHEAP, NOW - 60 * DAY), (DEAR, NOW - timedelta(hours=2))):
        set_price(actor=SYSTEM, version=version, price=price, effective_from=since, batch_discount_bp=3333, now=NOW)
    return version


@pytest.fixture
def charged(people, version):
    """A day with two prices, a discount, a batch, a refused request, one without a line and one nobody has priced."""
    set_discount(
        actor=SYSTEM, tenant=people.other, model=None, discount_bp=1234, effective_from=NOW - 60 * DAY, now=NOW
    )
    unpriced = make_version("unpriced")
    make = {"tenant_id": str(people.tenant.pk), "version_id": str(version.pk), "input_tokens": 1001}
    ingest(
        *(make_record(**make, arrived_at=ARRIVED_AT_S - hours * HOUR_S) for hours in range(5)),
        *(make_record(**make | {"tenant_id": str(people.other.pk)}, output_tokens=n) for n in range(7)),
        make_record(**make, service_class="batch"),
        make_record(tenant_id=str(people.tenant.pk), outcome="refused", usage_source="none", input_tokens=0,
                    cached_input_tokens=0, output_tokens=0),
        make_record(**make | {"version_id": str(unpriced.pk)}, cost_pico_usd=7_777_777),
        make_record(**make | {"version_id": str(unpriced.pk)}),
    )  # fmt: skip
    return unpriced


def ingest(*records):
    ingest_records(records=records, node_id=make_node(f"n{records[0].sequence}").pk, now=NOW)


def lines_of(client, query=MONTH):
    answer = client.get(f"/api/v1/usage/focus.csv?{query}")
    assert answer.status_code == 200
    return list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))


def total(lines, column):
    return sum(Decimal(line[column]) for line in lines)


def sums():
    return sum_usage(scope=scope_for(actor=SYSTEM, start=NOW - 28 * DAY, end=NOW + DAY))


def test_every_row_keeps_the_rules_of_the_specification(people, as_user, charged):
    lines = lines_of(as_user(people.finance))
    assert lines
    assert [(line["SkuId"], broken) for line in lines if (broken := broken_rules(line))] == []
    assert list(lines[0]) == sorted(lines[0])
    assert len(lines[0]) == 57


def test_a_rule_that_is_broken_is_seen(people, as_user, charged):
    line = lines_of(as_user(people.finance))[0]
    for column, wrong in (("ListUnitPrice", "1E-7"), ("SkuId", ""), ("ChargePeriodEnd", "2026-11-30"), ("Tags", "[]")):
        assert broken_rules(line | {column: wrong}), column


def test_what_was_billed_adds_up_to_the_records_to_the_picodollar(people, as_user, charged):
    lines, totals = lines_of(as_user(people.finance)), sums()
    assert total(lines, "BilledCost") == total(lines, "EffectiveCost") == totals.cost_usd
    assert total(lines, "ListCost") == totals.list_usd
    rounding = abs(total(lines, "ContractedCost") - totals.cost_usd)
    assert rounding <= totals.request_count * Decimal("0.5e-12")
    tokens = sum(int(line["ConsumedQuantity"]) for line in lines if line["ConsumedUnit"] == "Tokens")
    assert tokens == totals.input_tokens + totals.output_tokens
    assert {line["SubAccountName"] for line in lines} == {"gold", "batch"}


def test_a_change_of_price_within_a_day_makes_rows_of_each_price(people, as_user, charged):
    lines = lines_of(as_user(people.finance), f"{MONTH}&tenant={people.tenant.pk}")
    prices = defaultdict(set)
    for line in lines:
        prices[line["SkuMeter"]].add(Decimal(line["ListUnitPrice"]))
    assert prices["Input tokens"] == {Decimal("150001e-12"), Decimal("250000e-12")}
    assert prices["Output tokens"] == {Decimal("600007e-12"), Decimal("900001e-12")}
    assert [int(line["PricingQuantity"]) for line in lines if line["SkuMeter"] == "Requests"] == [2]


def test_a_discount_shows_in_the_contracted_price_and_not_in_the_list_price(people, as_user, charged):
    lines = lines_of(as_user(people.finance), f"{MONTH}&tenant={people.other.pk}")
    assert {Decimal(line["ContractedUnitPrice"]) / Decimal(line["ListUnitPrice"]) for line in lines} == {
        Decimal("0.8766")
    }


def test_a_part_of_a_day_is_charged_for_that_part(people, as_user, charged):
    lines = lines_of(as_user(people.finance), "start=2026-11-29T09:30:00Z&end=2026-11-29T11:10:00Z")
    assert {(line["ChargePeriodStart"], line["ChargePeriodEnd"]) for line in lines} == {
        ("2026-11-29T09:30:00Z", "2026-11-29T11:10:00Z")
    }
    at = {"arrived_at__gte": NOW.replace(hour=9, minute=30), "arrived_at__lt": NOW.replace(hour=11, minute=10)}
    assert total(lines, "BilledCost") == sum(row.cost_usd for row in UsageRecord.objects.filter(**at))


def test_what_is_priced_later_or_anew_moves_to_its_price(people, as_user, charged, version):
    set_price(actor=SYSTEM, version=charged, price=CHEAP, effective_from=NOW - 60 * DAY, now=NOW)
    price_unpriced()
    set_price(actor=SYSTEM, version=version, price=CHEAP, effective_from=NOW - timedelta(hours=1), now=NOW)
    rerating = start_rerating(
        actor=SYSTEM, start=NOW - DAY, end=NOW + DAY, reason="wrong", now=NOW + timedelta(hours=1)
    )
    run_reratings(now=NOW)
    apply_rerating(actor=SYSTEM, rerating=rerating, now=NOW)
    run_reratings(now=NOW)
    lines = lines_of(as_user(people.finance))
    assert [broken for line in lines if (broken := broken_rules(line))] == []
    assert total(lines, "BilledCost") == sums().cost_usd == sum(row.cost_usd for row in UsageRecord.objects.all())
    assert sum(row.request_count for row in UsageDay.objects.all()) == UsageRecord.objects.count()
    assert all(row.request_count >= 0 and row.input_tokens >= 0 for row in UsageDay.objects.all())
    assert {line["SkuMeter"] for line in lines} == {"Input tokens", "Cached input tokens", "Output tokens", "Requests"}


def test_parquet_says_the_same(people, as_user, charged):
    client = as_user(people.finance)
    answer = client.get(f"/api/v1/usage/focus.parquet?{MONTH}")
    table = pq.read_table(io.BytesIO(b"".join(answer.streaming_content)))
    lines = lines_of(client)
    assert [str(row["SkuPriceId"]) for row in table.to_pylist()] == [line["SkuPriceId"] for line in lines]
    for column in ("BilledCost", "ContractedCost", "ListUnitPrice", "PricingQuantity"):
        assert [Decimal(row[column]) for row in table.to_pylist()] == [Decimal(line[column]) for line in lines]
