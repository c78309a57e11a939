"""What finance sends out is called final only when nothing is missing from it, and what changes it later is said."""

import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
from pypdf import PdfReader

from apps.common.actors import SYSTEM
from apps.usage.models import Rerating
from apps.usage.selectors.statements import get_statement
from apps.usage.services import rating, rerating
from apps.usage.services.partitions import make_partitions
from apps.usage.services.prices import set_price
from apps.usage.services.rating import price_unpriced
from apps.usage.services.rerating import apply_rerating, run_reratings, start_rerating
from tests.factories.domain import NOW, make_version
from tests.factories.usage import ingest_records, make_record
from workers.contracts.snapshot import Price

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

DAY = timedelta(days=1)
NODE = uuid4()
OCTOBER = date(2026, 10, 1)
OCTOBERS_END = datetime(2026, 11, 1, tzinfo=UTC)
FINAL_AT = OCTOBERS_END + timedelta(days=7)
IN_OCTOBER_S = datetime(2026, 10, 20, 12, tzinfo=UTC).timestamp()
PDF = "/api/v1/usage/statement.pdf?tenant={}&month=2026-10"


@pytest.fixture
def version(db, valkey):
    for age in range(0, 60, 7):
        make_partitions(now=NOW - timedelta(days=age))
    return make_version()


def price(version, pico, *, since=NOW - 90 * DAY):
    amounts = Price(input_pico_usd=pico, cached_input_pico_usd=0, output_pico_usd=0)
    set_price(actor=SYSTEM, version=version, price=amounts, effective_from=since, now=NOW)


def ingest(people, version, *, now, **facts):
    facts = {"arrived_at": IN_OCTOBER_S, "tenant_id": str(people.tenant.pk)} | facts
    return ingest_records(records=[make_record(version_id=str(version.pk), **facts)], node_id=NODE, now=now)


def statement(people, now, zone="UTC", *, tenant=None):
    tenant_id = (tenant or people.tenant).pk
    return get_statement(actor=SYSTEM, tenant_id=tenant_id, first_day=OCTOBER, zone=ZoneInfo(zone), now=now)


def half_applied(people, version, monkeypatch):
    """Two records, of which a re-rating that was killed has reached the first."""
    for module in (rating, rerating):
        monkeypatch.setattr(module, "BATCH_RECORDS", 1)
    price(version, 10)
    for number in range(2):
        ingest(people, version, now=OCTOBERS_END, arrived_at=IN_OCTOBER_S + number)
    price(version, 3, since=NOW - 89 * DAY)
    row = start_rerating(actor=SYSTEM, start=NOW - 50 * DAY, end=NOW, reason="a wrong price", now=NOW)
    run_reratings(now=NOW)
    apply_rerating(actor=SYSTEM, rerating=Rerating.objects.get(pk=row.pk), now=NOW)
    with monkeypatch.context() as patched:
        patched.setattr(rerating, "_note", _note_and_die(rerating._note))
        with pytest.raises(RuntimeError):
            run_reratings(now=NOW)
    return row


def _note_and_die(note):
    noted = []

    def dies_at_the_second(*args, **kwargs):
        noted.append(1)
        if len(noted) == 2:
            raise RuntimeError("the process dies")
        note(*args, **kwargs)

    return dies_at_the_second


def test_a_statement_waits_for_a_rerating_that_is_half_done(people, version, monkeypatch):
    row = half_applied(people, version, monkeypatch)
    half = statement(people, NOW)
    assert half.totals.cost_usd == Decimal(8 * 3 + 8 * 10) / 10**12
    assert (half.is_final, half.reratings_under_way, half.reratings) == (False, [row.number], [])
    assert half.open_reasons == [
        f"re-rating {row.number} is being applied: what it has not reached is by the old prices"
    ]
    run_reratings(now=NOW)
    whole = statement(people, NOW)
    assert whole.totals.cost_usd == Decimal(2 * 8 * 3) / 10**12
    assert (whole.is_final, whole.reratings_under_way, whole.reratings) == (True, [], [row.number])
    assert statement(people, NOW, tenant=people.other).reratings == []


def test_reports_and_files_say_that_a_rerating_is_half_done(people, version, monkeypatch, as_user):
    row = half_applied(people, version, monkeypatch)
    finance, asked = as_user(people.finance), "start=2026-10-01&end=2026-11-01"
    report = finance.get(f"/api/v1/usage/report/?{asked}").json()
    assert report["reratings_under_way"] == [row.number]
    for name in ("records.csv", "report.csv", "report.parquet", "focus.csv", "outcomes.csv"):
        answer = finance.get(f"/api/v1/usage/{name}?{asked}")
        assert answer["x-tokenyard-reratings-under-way"] == str(row.number), name
    assert "x-tokenyard-reratings-under-way" not in finance.get(
        "/api/v1/usage/report.csv?start=2026-08-01&end=2026-09-01"
    )
    run_reratings(now=NOW)
    assert "x-tokenyard-reratings-under-way" not in finance.get(f"/api/v1/usage/report.csv?{asked}")


def test_what_came_after_a_statement_was_final_is_in_the_amount_and_said(people, version, as_user):
    price(version, 10)
    ingest(people, version, now=FINAL_AT - timedelta(seconds=1))
    before = statement(people, FINAL_AT)
    ingest(people, version, now=FINAL_AT, input_tokens=104)
    after = statement(people, FINAL_AT)
    assert (before.is_final, before.latecomers.request_count) == (True, 0)
    assert (after.latecomers.request_count, after.latecomers.cost_usd) == (1, Decimal(1000) / 10**12)
    assert after.totals.cost_usd - before.totals.cost_usd == after.latecomers.cost_usd
    printed = as_user(people.finance).get(PDF.format(people.tenant.pk)).content
    assert "1 of the requests, 0.000000001000 USD, came after 2026-11-08" in text_of(printed)


def text_of(pdf):
    return " ".join("\n".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages).split())


def test_what_came_late_but_in_time_is_no_latecomer(people, version):
    price(version, 10)
    ingest(people, version, now=FINAL_AT - timedelta(seconds=1), arrived_at=OCTOBERS_END.timestamp() - 1)
    assert statement(people, FINAL_AT).latecomers.request_count == 0


def test_a_latecomer_of_the_next_month_is_none_of_this_one(people, version):
    price(version, 10)
    ingest(people, version, now=NOW, arrived_at=OCTOBERS_END.timestamp())
    assert statement(people, NOW).latecomers.request_count == 0
    assert statement(people, NOW, "America/St_Johns").latecomers.request_count == 1  # there it is still October


def test_a_statement_says_each_reason_for_which_it_is_open(people, version):
    ingest(people, version, now=OCTOBERS_END)
    assert statement(people, OCTOBERS_END, "Asia/Kolkata").open_reasons == [
        "late records may come until 2026-11-08 00:00",
        "requests without a price yet, which are not in the amount: 1",
    ]
    price(version, 10)
    price_unpriced()
    assert statement(people, FINAL_AT, "Asia/Kolkata").open_reasons == []
