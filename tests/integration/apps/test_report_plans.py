"""What pages and reports ask of the records has an index, and what they ask of sums is not asked of the records."""

from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import connection

from apps.usage.selectors.health import get_record_health
from apps.usage.selectors.outcomes import sum_outcomes
from apps.usage.selectors.records import page_of_records
from apps.usage.selectors.reports import rank_usage, report_usage, sum_usage
from apps.usage.selectors.sums import UsageScope
from apps.usage.services.partitions import make_partitions
from tests.factories.domain import NOW
from tests.factories.usage import ingest_records, make_record

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


@contextmanager
def asked():
    """The plans of all that is asked meanwhile, as they would be of tables too large to read through."""
    plans = []

    def explain(execute, sql, params, many, context):
        if sql.lstrip("( ").upper().startswith("SELECT"):
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
