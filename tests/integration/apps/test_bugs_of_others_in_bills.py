"""What went wrong in other systems' prices, files and forecasts, rebuilt: each case names the report it comes from."""

import csv
import io
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest

from apps.common.actors import SYSTEM
from apps.usage.models import Budget, Rerating, UsageRecord
from apps.usage.selectors.budgets import get_budget_status
from apps.usage.selectors.focus import focus_table
from apps.usage.selectors.records import page_of_records
from apps.usage.selectors.reports import report_usage, scope_for, sum_usage
from apps.usage.selectors.statements import get_statement
from apps.usage.services.budgets import create_budget
from apps.usage.services.prices import set_discount, set_price
from apps.usage.services.rating import price_unpriced
from apps.usage.services.rerating import apply_rerating, run_reratings, start_rerating
from tests.factories.domain import NOW, make_version
from tests.factories.usage import ARRIVED_AT_S, ingest_records, make_record
from workers.contracts.snapshot import Price

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

DAY = timedelta(days=1)
PICO = Decimal("1e-12")
ALL = {"start": NOW - 60 * DAY, "end": NOW + DAY}
QUERY = "start=2026-10-01&end=2026-12-01"
SHANGHAI = ZoneInfo("Asia/Shanghai")


@pytest.fixture
def version(db, valkey):
    return make_version()


def price(version, since=NOW - 50 * DAY, **amounts):
    pico = {"input_pico_usd": 10, "cached_input_pico_usd": 1, "output_pico_usd": 100} | amounts
    set_price(actor=SYSTEM, version=version, price=Price(**pico), effective_from=since, now=NOW)


def store(version, people, *records, now=NOW):
    """`records` are what each says beside the usual."""
    usual = {"version_id": str(version.pk), "tenant_id": str(people.tenant.pk)}
    made = [make_record(**(usual | facts)) for facts in records]
    ingest_records(records=made, node_id=uuid4(), now=now)
    return made


def everything(**more):
    return scope_for(actor=SYSTEM, **(ALL | more))


def cost_pico():
    return sum_usage(scope=everything()).cost_usd / PICO


def test_cached_and_reasoning_tokens_are_parts_and_not_charged_beside_the_whole(version, people):
    """latitude-dev/latitude-llm#4051, langwatch/langwatch#7018, ls1intum/edutelligence#892: both were added on top."""
    price(version)
    store(
        version, people, {"input_tokens": 1000, "cached_input_tokens": 900, "output_tokens": 50, "reasoning_tokens": 40}
    )
    assert cost_pico() == 100 * 10 + 900 * 1 + 50 * 100


def test_a_new_price_leaves_what_is_over_as_it_was(version, people):
    """ccusage/ccusage#1636, kenn-io/agentsview#1540: history was priced by the newest list at each look."""
    price(version)
    store(version, people, {"arrived_at": ARRIVED_AT_S - 86_400})
    before = cost_pico()
    price(version, since=NOW, input_pico_usd=999, output_pico_usd=9999)
    price_unpriced()
    assert cost_pico() == before


def test_a_price_that_begins_before_it_is_made_reaches_what_had_none(version, people):
    """langfuse/langfuse#12184: with a start in the past only what came after its making got a cost."""
    store(version, people, *({"arrived_at": ARRIVED_AT_S - days * 86_400} for days in (0, 3, 20)))
    price(version, since=datetime.fromtimestamp(ARRIVED_AT_S, UTC) - 10 * DAY)
    price_unpriced()
    waiting = UsageRecord.objects.filter(is_unpriced=True).values_list("arrived_at", flat=True)
    assert [at.timestamp() for at in waiting] == [ARRIVED_AT_S - 20 * 86_400]


def test_a_price_holds_from_its_very_moment_and_not_before(version, people):
    """mozilla-ai/any-llm#995: which price of two is in force at the edge."""
    price(version)
    edge = datetime.fromtimestamp(ARRIVED_AT_S, UTC)
    price(version, since=edge, input_pico_usd=20)
    store(version, people, *({"arrived_at": ARRIVED_AT_S + offset} for offset in (-1e-6, 0)))
    costs = UsageRecord.objects.order_by("arrived_at").values_list("cost_usd", flat=True)
    assert [cost / PICO for cost in costs] == [8 * 10 + 4 + 700, 8 * 20 + 4 + 700]


def test_nothing_used_is_nothing_and_not_unknown(version, people):
    """BerriAI/litellm#37992: a usage of zero was taken for a missing one, and estimated."""
    price(version)
    store(version, people, {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0})
    totals = sum_usage(scope=everything())
    assert (totals.request_count, totals.cost_usd, totals.unpriced_count) == (1, 0, 0)


def test_a_request_without_tokens_has_no_cost(version, people):
    """BerriAI/litellm#1806: spend beside no usage."""
    price(version, request_pico_usd=5000)
    nothing = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "usage_source": "none"}
    store(version, people, nothing | {"outcome": "refused", "status": 429})
    assert cost_pico() == 0


def test_a_user_with_many_keys_is_one_row_a_day_and_each_key_its_own(version, people):
    """BerriAI/litellm#8897, #2043: of several keys' rows the last was shown, or all went to the first key."""
    price(version)
    keys = [str(uuid4()) for _ in range(3)]
    store(version, people, *({"key_id": key, "user_id": str(people.owner.pk)} for key in keys for _ in range(2)))
    by_user = report_usage(scope=everything(), group_by=["day", "user"], zone=ZoneInfo("UTC"))
    by_key = report_usage(scope=everything(), group_by=["key"], zone=ZoneInfo("UTC"))
    assert [row.request_count for row in by_user] == [6]
    assert {row.ids["key"]: row.request_count for row in by_key} == dict.fromkeys(keys, 2)


@pytest.mark.parametrize("width", [timedelta(minutes=15), timedelta(hours=1), DAY, timedelta(seconds=7)])
def test_what_falls_on_an_edge_is_in_one_of_the_two_stretches(version, people, width):
    """grafana/mimir#9680, getmoto/moto#5627: ends were counted with both."""
    price(version)
    first = datetime.fromtimestamp(ARRIVED_AT_S, UTC) - 4 * width
    edges = [first + number * width for number in range(5)]
    store(version, people, *({"arrived_at": edge.timestamp()} for edge in edges))
    parts = [sum_usage(scope=everything(start=edge, end=edge + width)).request_count for edge in edges]
    assert parts == [1] * 5
    assert sum_usage(scope=everything(start=edges[0], end=edges[-1])).request_count == 4


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", "\n=", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
@pytest.mark.parametrize("name", ["records.csv", "report.csv", "outcomes.csv", "focus.csv"])
def test_no_file_has_a_cell_that_a_spreadsheet_runs(version, people, as_user, start, name):
    """getagentseal/codeburn#22, Honguan/carbon-balance#53: names that clients chose became formulas."""
    evil = f"{start}cmd|' /C calc'!A0"
    store(version, people, {"public_model": evil, "end_user": evil, "workflow_id": evil, "tags": {"a": evil}})
    text = b"".join(as_user(people.finance).get(f"/api/v1/usage/{name}?{QUERY}&group_by=model")).decode()
    cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
    assert not [
        cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20"))
    ]


def test_the_smallest_amounts_are_written_out(version, people, as_user):
    """adamwdraper/Numeral-js#470, #574: what has an exponent is read as something else by the next tool."""
    price(version, input_pico_usd=0, cached_input_pico_usd=0, output_pico_usd=1)
    store(version, people, {"output_tokens": 1})
    client = as_user(people.finance)
    texts = [
        b"".join(client.get(f"/api/v1/usage/{name}?{QUERY}")) for name in ("records.csv", "report.csv", "focus.csv")
    ]
    report = client.get(f"/api/v1/usage/report/?{QUERY}").content
    statement = client.get(f"/api/v1/usage/statement/?tenant={people.tenant.pk}&month=2026-11").content
    for text in (*texts, report, statement):
        assert b"0.000000000001" in text
        assert not re.search(rb"\dE[-+]\d", text)


def test_the_month_of_a_budget_begins_at_midnight_of_its_zone(version, people):
    """BerriAI/litellm#40978, langwatch/tasks#458: windows of Shanghai began eight hours late."""
    price(version)
    begins = datetime(2026, 11, 1, tzinfo=SHANGHAI).timestamp()
    store(version, people, *({"arrived_at": begins + offset} for offset in (-1, 0, 3600)))
    facts = {"tenant": people.tenant, "name": "b", "amount_usd": Decimal(1), "zone": SHANGHAI.key}
    status = get_budget_status(create_budget(actor=SYSTEM, now=NOW, **facts), now=NOW)
    assert status.month.start.timestamp() == begins
    assert status.spent_usd / PICO == 2 * (8 * 10 + 4 + 700)


def test_a_forecast_ends_with_the_month_and_begins_anew(version, people):
    """BerriAI/litellm#31942: the days that are left were counted from the wrong end."""
    price(version)
    store(version, people, {"arrived_at": ARRIVED_AT_S})
    budget = Budget(tenant=people.tenant, amount_usd=Decimal(1), zone="UTC")
    last = get_budget_status(budget, now=datetime(2026, 11, 30, 23, 59, 59, 999_999, tzinfo=UTC))
    first = get_budget_status(budget, now=datetime(2026, 12, 1, tzinfo=UTC))
    assert last.forecast_usd == last.spent_usd > 0
    assert first.spent_usd == 0
    week = Decimal(7 * 86_400)
    assert first.forecast_usd == (last.spent_usd * (31 * 86_400) / week).quantize(PICO)


def test_what_is_free_for_one_tenant_has_a_price(version, people):
    """eltmon/overdeck#797, 1806: free, unknown and nothing used looked alike."""
    price(version)
    set_discount(
        actor=SYSTEM, tenant=people.tenant, model=None, discount_bp=10_000, effective_from=NOW - 9 * DAY, now=NOW
    )
    store(version, people, {})
    totals = sum_usage(scope=everything())
    assert (totals.cost_usd, totals.unpriced_count) == (0, 0)
    assert totals.list_usd / PICO == 8 * 10 + 4 + 700
    table = focus_table(scope=everything(start=NOW - DAY))
    rows = [dict(zip(table.names, row, strict=True)) for row in table.rows()]
    assert {row["BillingCurrency"] for row in rows} == {"USD"}
    assert {row["ContractedUnitPrice"] for row in rows} == {0}
    assert sum(row["ListCost"] for row in rows) == totals.list_usd


def test_pricing_anew_what_is_priced_right_changes_nothing(version, people):
    """langfuse/langfuse-docs#2018: costs were computed again by hand, and nobody knew whether once or twice."""
    price(version)
    store(version, people, *({"arrived_at": ARRIVED_AT_S - number} for number in range(4)))
    price(version, since=NOW - 40 * DAY, input_pico_usd=30)
    changed = []
    for _ in range(2):
        row = start_rerating(actor=SYSTEM, start=NOW - 20 * DAY, end=NOW + DAY, reason="again", now=NOW)
        run_reratings(now=NOW)
        apply_rerating(actor=SYSTEM, rerating=row, now=NOW)
        run_reratings(now=NOW)
        changed.append(Rerating.objects.get(pk=row.pk).result[str(people.tenant.pk)]["changed"])
    assert changed == [4, 0]
    assert cost_pico() == 4 * (8 * 30 + 4 + 700)


def test_records_of_one_instant_are_each_on_one_page(version, people):
    """BerriAI/litellm#13280: of requests that came together some were on no page of the log."""
    made = store(version, people, *({} for _ in range(25)))
    found, before, more = [], None, True
    while more:
        page, more = page_of_records(scope=everything(), before=before, size=10)
        found += [str(row.record_id) for row in page]
        before = page[-1].record_id
    assert sorted(found) == sorted(str(UUID(record.record_id)) for record in made)


def test_a_late_request_is_in_the_month_it_came_in_and_not_in_that_of_its_record(version, people):
    """flexprice/flexprice#605, getlago/lago#538: late events were billed with the month that heard of them."""
    price(version)
    october = datetime(2026, 10, 31, 23, 59, tzinfo=UTC)
    store(version, people, {"arrived_at": october.timestamp()}, now=october + 3 * DAY)
    facts = {"actor": SYSTEM, "tenant_id": people.tenant.pk, "zone": ZoneInfo("UTC"), "now": NOW}
    counts = [get_statement(first_day=date(2026, month, 1), **facts).totals.request_count for month in (10, 11)]
    assert counts == [1, 0]
