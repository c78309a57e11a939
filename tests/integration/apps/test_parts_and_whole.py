"""What an answer says in several sums is read at one moment, so that parts add up to their whole while records come."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.db import connection

from apps.common.rows import every_tenant
from apps.console.views import usage as usage_page
from apps.usage.api import money, usage
from apps.usage.models import UsageRecord
from apps.usage.selectors import focus, outcomes, statements
from tests.factories.domain import NOW, make_people
from tests.factories.usage import ARRIVED_AT_S, ingest_records, make_record

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]

MONTH = "start=2026-11-01T00:00:00Z&end=2026-12-01T00:00:00Z"
NUMBERS = itertools.count(1)


@pytest.fixture
def people(valkey):
    with every_tenant():
        found = make_people()
        store(found.tenant.pk)
        yield found


def store(tenant_id):
    day = next(NUMBERS)
    record = make_record(tenant_id=str(tenant_id), arrived_at=ARRIVED_AT_S - day * 86_400, input_tokens=7)
    ingest_records(records=[record], node_id=uuid4(), now=NOW)


def come_meanwhile(monkeypatch, module, name, tenant_id):
    """Whenever `module` asks `name`, a record has just come by another connection."""
    asked = getattr(module, name)

    def store_elsewhere():
        try:
            with every_tenant():
                store(tenant_id)
        finally:
            connection.close()

    def ask(**how):
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(store_elsewhere).result(30)
        return asked(**how)

    monkeypatch.setattr(module, name, ask)


@pytest.mark.parametrize(
    ("late", "path"),
    [
        ((usage, "sum_usage"), f"usage/report/?{MONTH}&group_by=day"),
        ((money, "sum_outcomes"), f"usage/outcomes/?{MONTH}&group_by=tenant"),
    ],
)
def test_rows_of_an_answer_add_up_to_its_totals(people, as_user, monkeypatch, late, path):
    come_meanwhile(monkeypatch, *late, people.tenant.pk)
    found = as_user(people.finance).get(f"/api/v1/{path}").json()
    assert sum(row["request_count"] for row in found["rows"]) == found["totals"]["request_count"] == 1
    assert UsageRecord.objects.count() == 2


def test_days_and_models_of_a_statement_add_up_to_its_amount(people, as_user, monkeypatch):
    come_meanwhile(monkeypatch, statements, "sum_usage", people.tenant.pk)
    found = as_user(people.finance).get(f"/api/v1/usage/statement/?tenant={people.tenant.pk}&month=2026-11").json()
    for part in ("by_version", "by_day"):
        assert sum(row["input_tokens"] for row in found[part]) == found["totals"]["input_tokens"] == 7


@pytest.mark.parametrize(
    ("late", "path"),
    [((usage_page, "sum_usage"), "/usage/"), ((outcomes, "sum_outcomes"), "/outcomes/")],
)
def test_rows_of_a_page_add_up_to_its_totals(people, client, monkeypatch, late, path):
    come_meanwhile(monkeypatch, *late, people.tenant.pk)
    client.force_login(people.finance)
    shown = client.get(f"{path}?first=2026-11-01&last=2026-11-30&by=tenant").context
    counts = [getattr(row, "sums", row["sums"] if isinstance(row, dict) else row) for row in shown["rows"]]
    assert sum(each.request_count for each in counts) == shown["totals"].request_count == 1


def test_charges_of_all_days_are_those_of_one_moment(people, monkeypatch):
    from apps.usage.selectors.sums import UsageScope  # noqa: PLC0415 - beside its one use

    scope = UsageScope(tenant_ids=None, start=NOW.replace(day=1), end=NOW)
    with every_tenant():
        expected = len(list(focus.focus_table(scope=scope).rows()))
        come_meanwhile(monkeypatch, focus, "sums_by", people.tenant.pk)
        assert len(list(focus.focus_table(scope=scope).rows())) == expected > 0
        assert len(list(focus.focus_table(scope=scope).rows())) > expected
    assert connection.get_autocommit()
