"""What pages and reports ask of the records has an index, and what they ask of sums is not asked of the records."""

import itertools
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import connection

from apps.usage.selectors.health import get_record_health
from apps.usage.selectors.outcomes import report_outcomes, sum_outcomes
from apps.usage.selectors.records import page_of_records
from apps.usage.selectors.reports import rank_usage, report_usage, sum_usage
from apps.usage.selectors.sums import SUMS, UsageScope
from apps.usage.services.partitions import make_partitions
from tests.factories.domain import NOW
from tests.factories.usage import ARRIVED_AT_S, ingest_records, make_record
from workers.contracts.ids import uuid7

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

MONTH = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
ONE = UUID(make_record().tenant_id)
SCOPES = {
    name: UsageScope(tenant_ids=tenants, start=MONTH - timedelta(days=30), end=MONTH)
    for name, tenants in (("all", None), ("one", (ONE,)))
}
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu")


@pytest.fixture
def records(db):
    make_partitions(now=NOW)
    named = {"end_user": "ann", "workflow_id": "w1"}
    ingest_records(records=[make_record(), make_record(**named)], node_id=UUID(int=1), now=NOW)


@pytest.fixture
def varied_records(db):
    """Of two tenants who use the same names, over nine days, among them at the edges of slots and days."""
    make_partitions(now=NOW)
    places = itertools.product((0, 1, 899.999_999, 900, 43_200, 43_199.999_999), range(0, 8, 3), ("job", "wörk", ""))
    records = [
        make_record(
            tenant_id=uuid7(1.0, 1 + number % 2), arrived_at=ARRIVED_AT_S - day * 86_400 - second,
            workflow_id=name and f"{name}-{number % 4}",
            end_user=f"{name}-{number % 5}", outcome=("completed", "failed")[number % 3 == 0],
            input_tokens=10 * number, cached_input_tokens=number, output_tokens=number % 7, wasted_tokens=number % 4,
            reasoning_tokens=number % 2, cost_pico_usd=number**3, version_id=uuid7(4.0, 1) if number % 4 else "",
        )
        for number, (second, day, name) in enumerate(places)
    ]  # fmt: skip
    ingest_records(records=records, node_id=UUID(int=1), now=NOW)


@contextmanager
def asked():
    """The plans of all that is asked meanwhile, as they would be of tables too large to read through."""
    plans = []

    def explain(execute, sql, params, many, context):
        if sql.lstrip("( \n").upper().startswith(("SELECT", "WITH")):
            with context["connection"].connection.cursor() as cursor:
                cursor.execute("SET LOCAL enable_seqscan = off")
                cursor.execute(f"EXPLAIN {sql}", params)
                plans.append("\n".join(line for (line,) in cursor.fetchall()))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        yield plans


def reads_all_records(plan):
    return "Seq Scan on usage_record" in plan


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("scope", SCOPES)
def test_a_months_page_reads_sums_and_no_records(records, scope, zone):
    zone, of = ZoneInfo(zone), SCOPES[scope]
    with asked() as plans:
        for group in ("model", "version", "tenant", "user", "key", "end_user", "workflow"):
            report_usage(scope=of, group_by=[group], zone=zone)
            report_usage(scope=of, group_by=["day", group], zone=zone)
            rank_usage(scope=of, group=group, by="cost_usd", size=10)
        sum_usage(scope=of)
    assert len(plans) > 20
    assert [plan for plan in plans if "usage_record" in plan] == []


def test_days_of_end_users_are_ranked_by_the_day(records):
    with asked() as plans:
        rank_usage(scope=SCOPES["all"], group="end_user", by="cost_usd", size=10)
    assert plans
    assert all("usage_end_user_day" in plan and "usage_by_end_user" not in plan for plan in plans)


def test_so_are_days_of_workflows_of_all_tenants(records):
    with asked() as plans:
        rank_usage(scope=SCOPES["all"], group="workflow", by="cost_usd", size=10)
    assert plans
    assert all("usage_workflow_total" in plan and "usage_by_workflow" not in plan for plan in plans)


@pytest.mark.parametrize("scope", SCOPES)
def test_what_tasks_cost_is_read_from_their_sums(records, scope):
    with asked() as plans:
        report_outcomes(scope=SCOPES[scope], group_by="version")
    assert any("task_usage" in plan for plan in plans)
    assert [plan for plan in plans if "usage_record" in plan] == []


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("by", SUMS)
@pytest.mark.parametrize("group", ["workflow", "end_user"])
def test_the_greatest_are_those_of_the_report_by_whatever_they_are_ranked(varied_records, group, by, zone):
    start = datetime(2026, 11, 20, tzinfo=ZoneInfo(zone))
    scope = UsageScope(tenant_ids=None, start=start, end=start + timedelta(days=9))
    rows = report_usage(scope=scope, group_by=[group], zone=ZoneInfo(zone))
    ranked = rank_usage(scope=scope, group=group, by=by, size=len(rows))
    assert len(rows) > 3
    assert sorted(ranked, key=lambda row: row.ids[group]) == sorted(rows, key=lambda row: row.ids[group])
    amounts = [getattr(row, by) for row in ranked]
    assert amounts == sorted(amounts, reverse=True)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"search": "req-1"},
        {"search": "ann"},
        {"search": make_record().record_id},
        {"outcome": "failed"},
        {"before": UUID(make_record().record_id)},
    ],
    ids=["newest", "a request", "an end user", "a record", "failed", "the next page"],
)
def test_the_records_of_a_page_are_found_by_an_index(records, scope, more):
    with asked() as plans:
        page_of_records(scope=SCOPES[scope], **more)
    assert [plan for plan in plans if reads_all_records(plan)] == []


@pytest.mark.parametrize(
    "ask",
    [
        partial(get_record_health, since=NOW - timedelta(days=30)),
        partial(sum_outcomes, scope=SCOPES["all"]),
    ],
    ids=["health", "outcomes"],
)
def test_so_is_what_other_pages_of_finance_ask(records, ask):
    with asked() as plans:
        ask()
    assert plans
    assert [plan for plan in plans if reads_all_records(plan)] == []
