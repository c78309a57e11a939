"""What went wrong in other systems' reports, budgets and bills, rebuilt: each case names the report it comes from."""

from collections import Counter
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from django.core import mail

from apps.common.actors import SYSTEM
from apps.limits.selectors.use import list_use
from apps.limits.services.limits import set_limit
from apps.limits.services.recount import recount_limits
from apps.usage.models import BudgetAlert
from apps.usage.selectors.focus import focus_table
from apps.usage.selectors.reports import GROUPS, report_usage, scope_for, sum_usage
from apps.usage.selectors.statements import get_statement
from apps.usage.services.alerts import deliver_alerts
from apps.usage.services.budgets import create_budget, watch_budgets
from tests.factories.domain import NOW, make_tenant
from tests.factories.usage import ARRIVED_AT_S, ingest_records, make_record

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

DAY = timedelta(days=1)
YEAR = {"start": NOW - 390 * DAY, "end": NOW + DAY}
UTC = ZoneInfo("UTC")
IDS = ("user_id", "key_id")


@pytest.fixture
def tenant(db, valkey):
    return make_tenant()


def store(*records):
    ingest_records(records=records, node_id=uuid4(), now=NOW)


def midnight(day, zone):
    return datetime.combine(day, time.min, tzinfo=zone)


def everything(**more):
    return scope_for(actor=SYSTEM, **(YEAR | more))


@pytest.mark.parametrize(
    ("zone", "changes"),
    [
        ("America/New_York", [date(2026, 3, 8), date(2026, 11, 1)]),
        ("Europe/Berlin", [date(2026, 3, 29), date(2026, 10, 25)]),
        ("Australia/Lord_Howe", [date(2026, 4, 5), date(2026, 10, 4)]),
        ("America/Santiago", [date(2026, 4, 5), date(2026, 9, 6)]),
    ],
)
def test_what_is_used_around_midnight_is_on_its_own_day_on_both_sides_of_a_change_of_clocks(tenant, zone, changes):
    """openclaw/openclaw#103092: with today's offset for the whole year, late evenings moved to the next day."""
    zone = ZoneInfo(zone)
    places = [
        (midnight(change, zone) + day * DAY + timedelta(minutes=minutes)).timestamp()
        for change in changes
        for day in (-40, -1, 0, 1, 2, 20)
        for minutes in (-61, -31, -1, 0, 1, 29, 59, 61, 121, 181)
    ]
    past = [at for at in places if at < NOW.timestamp()]
    store(*(make_record(tenant_id=str(tenant.pk), arrived_at=at) for at in past))
    on_days = Counter(datetime.fromtimestamp(at, zone).date() for at in past)
    assert {
        row.day: row.request_count for row in report_usage(scope=everything(), group_by=["day"], zone=zone)
    } == on_days
    for day, count in on_days.items():
        start, end = (datetime.combine(each, datetime.min.time(), tzinfo=zone) for each in (day, day + DAY))
        assert sum_usage(scope=everything(start=start, end=end)).request_count == count


def test_a_month_of_a_report_begins_on_the_first_of_the_zone(tenant):
    """openmeterio/openmeter#3313: January of Budapest was said to begin on December's last day."""
    zone = ZoneInfo("Europe/Budapest")
    edges = [datetime(2026, month, 1, tzinfo=zone).timestamp() + at for month in (1, 4, 11) for at in (-1, 0)]
    store(*(make_record(tenant_id=str(tenant.pk), arrived_at=at) for at in edges))
    rows = report_usage(scope=everything(), group_by=["month"], zone=zone)
    months = {row.month: row.request_count for row in rows}
    assert months == {date(2025, 12, 1): 1, **dict.fromkeys((date(2026, month, 1) for month in (1, 3, 4, 10, 11)), 1)}


@pytest.mark.parametrize("group", GROUPS)
def test_a_request_with_many_tags_is_counted_once_whatever_it_is_grouped_by(tenant, group):
    """BerriAI/litellm#21894, vstorm-co/agenticos#170: a row for each tag, and the whole cost on each."""
    tags = {f"tag-{number}": "x" for number in range(9)}
    store(*(make_record(tenant_id=str(tenant.pk), cost_pico_usd=7, tags=tags, workflow_id="w") for _ in range(3)))
    rows = report_usage(scope=everything(), group_by=[group], zone=UTC)
    assert (sum(row.request_count for row in rows), sum(row.cost_usd for row in rows)) == (3, Decimal("21e-12"))


@pytest.mark.parametrize("zone", ["Etc/GMT-2", "Pacific/Auckland", "America/Los_Angeles"])
@pytest.mark.parametrize("filtered", ["user_id", "key_id", "end_user", "workflow_id", "public_model", "outcome"])
def test_a_filter_finds_on_a_day_of_a_zone_what_the_same_day_shows_unfiltered(tenant, zone, filtered):
    """BerriAI/litellm#42460: nothing on the day of a zone as soon as a user was asked for."""
    facts = {"tenant_id": str(tenant.pk), "end_user": "ann", "workflow_id": "w"}
    records = [make_record(arrived_at=ARRIVED_AT_S - hour * 3600, **facts) for hour in range(40)]
    store(*records)
    here = datetime.fromtimestamp(ARRIVED_AT_S, ZoneInfo(zone)).replace(hour=0, minute=0)
    of_day = {"start": here, "end": here + DAY}
    text = getattr(records[0], filtered)
    shown = sum_usage(scope=everything(**of_day))
    assert shown.request_count > 1
    assert sum_usage(scope=everything(**of_day, **{filtered: UUID(text) if filtered in IDS else text})) == shown


def test_a_limit_that_is_set_later_counts_its_own_period_and_nothing_before(tenant):
    """BerriAI/litellm#34270, #5651: the spend of all time was held against the first day of a new budget."""
    facts = {"tenant_id": str(tenant.pk), "input_tokens": 60, "output_tokens": 40}
    store(*(make_record(arrived_at=ARRIVED_AT_S - days * 86_400, **facts) for days in (0, 1, 5, 29, 40)))
    kinds, much = {"tokens_per_day": 100, "tokens_per_month": 300}, Decimal(10**6)
    limits = [set_limit(actor=SYSTEM, tenant=tenant, scope="tenant", kind=kind, amount=much, now=NOW) for kind in kinds]
    recount_limits(holder="test", now=NOW)
    assert [use.used for use in list_use(limits=limits, tenant_id=tenant.pk, now=NOW)] == list(kinds.values())


def test_a_budget_that_stays_over_is_told_once_and_again_next_month(tenant):
    """BerriAI/litellm#3738, #3113, #35814, kdlbs/kandev#3287: a letter with every request, from every process."""
    facts = {"name": "monthly", "amount_usd": Decimal(1), "thresholds_percent": [100], "mail_to": ["cfo@example.com"]}
    create_budget(actor=SYSTEM, tenant=tenant, now=NOW, **facts)
    for minute in range(5):
        store(make_record(tenant_id=str(tenant.pk), cost_pico_usd=2 * 10**12, arrived_at=ARRIVED_AT_S - 60 + minute))
        for _ in range(2):
            watch_budgets(now=NOW + timedelta(minutes=minute))
            deliver_alerts(clock=lambda: NOW + timedelta(minutes=minute))  # noqa: B023 - called at once
    assert len(mail.outbox) == 1
    december = NOW + 3 * DAY
    store(make_record(tenant_id=str(tenant.pk), cost_pico_usd=2 * 10**12, arrived_at=december.timestamp() - 60))
    watch_budgets(now=december)
    deliver_alerts(clock=lambda: december)
    told = BudgetAlert.objects.filter(is_forecast=False).order_by("month").values_list("month", flat=True)
    assert list(told) == [date(2026, 11, 1), date(2026, 12, 1)]


def test_an_amount_is_rounded_once_and_not_line_by_line(tenant):
    """getlago/lago-api#821, #824: each fee was rounded, and the invoice was the sum of what was rounded."""
    third_of_a_cent = 10**10 // 3
    store(
        *(
            make_record(tenant_id=str(tenant.pk), public_model=f"m{number}", cost_pico_usd=third_of_a_cent)
            for number in range(100)
        )
    )
    facts = {"first_day": date(2026, 11, 1), "zone": UTC, "now": NOW}
    statement = get_statement(actor=SYSTEM, tenant_id=tenant.pk, **facts)
    assert len(statement.by_version) == 100
    assert statement.totals.cost_usd == Decimal(100 * third_of_a_cent).scaleb(-12)
    assert statement.amount_usd == Decimal("0.33")


def test_very_small_costs_add_up_to_what_they_are(tenant):
    """langfuse/langfuse#1041, xn1cklas/tokenlens#6: tiny requests cost nothing, and so did all of them."""
    store(*(make_record(tenant_id=str(tenant.pk), cost_pico_usd=1) for _ in range(1001)))
    assert sum_usage(scope=everything()).cost_usd == Decimal("1001e-12")
    table = focus_table(scope=everything(start=NOW - DAY))
    billed = table.names.index("BilledCost")
    assert sum(row[billed] for row in table.rows()) == Decimal("1001e-12")
