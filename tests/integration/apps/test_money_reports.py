"""Files, statements, charges, outcomes and true cost: each the sum of the records, for those who may see them."""

import csv
import io
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from urllib.parse import quote
from zoneinfo import ZoneInfo, available_timezones

import pyarrow.parquet as pq
import pytest
from pypdf import PdfReader

from apps.common.actors import SYSTEM
from apps.fleet.models import Accelerator
from apps.usage.models import EngineShare, UsageRecord
from apps.usage.selectors.accelerators import report_cost
from apps.usage.selectors.outcomes import report_outcomes, sum_outcomes
from apps.usage.selectors.reports import report_usage, scope_for
from apps.usage.selectors.statements import get_statement
from apps.usage.services.accelerators import meter_accelerators, set_accelerator_price
from apps.usage.services.prices import set_discount, set_price
from apps.usage.services.sharing import share_engine_time
from tests.factories.domain import NOW, make_node, make_version
from tests.factories.usage import ARRIVED_AT_S, ingest_records, make_record
from workers.contracts.outcomes import TaskOutcome
from workers.contracts.snapshot import Price

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

DAY = timedelta(days=1)
QUERY = "start=2026-11-01T00:00:00Z&end=2026-12-01T00:00:00Z"
ALL_TIME = {"start": NOW - 28 * DAY, "end": NOW + DAY}


@pytest.fixture
def version(db, valkey):
    version = make_version()
    amounts = Price(input_pico_usd=150_000, cached_input_pico_usd=75_000, output_pico_usd=600_000)
    set_price(actor=SYSTEM, version=version, price=amounts, effective_from=NOW - 60 * DAY, now=NOW)
    return version


def ingest(*records):
    return ingest_records(records=records, node_id=make_record_node(), now=NOW)


def make_record_node():
    from uuid import uuid4  # noqa: PLC0415 - beside its one use

    return uuid4()


def scatter(people, version, seed, count=150):
    chance = random.Random(seed)  # noqa: S311 - made-up usage
    tenants = [(people.tenant, people.owner), (people.tenant, people.teammate), (people.other, people.stranger)]
    made = []
    for _ in range(count):
        tenant, user = chance.choice(tenants)
        made.append(
            make_record(
                tenant_id=str(tenant.pk),
                user_id=str(user.pk),
                version_id=chance.choice([str(version.pk), ""]),
                public_model=chance.choice(["demo-chat", "=evil", "-modèle"]),
                end_user=chance.choice(["", "anna", "bob"]),
                workflow_id=chance.choice(["", "w1", "w2"]),
                arrived_at=ARRIVED_AT_S - chance.randrange(27 * 86_400) + chance.random(),
                outcome=chance.choice(["completed", "completed", "client_left", "failed", "refused"]),
                input_tokens=chance.randrange(4, 4000),
                output_tokens=chance.randrange(500),
                wasted_tokens=chance.choice([0, 0, 30]),
                cost_pico_usd=chance.randrange(10**9),
            )
        )
    ingest(*made)
    return made


def rest(client, path):
    return client.get(f"/api/v1/{path}").json()


def file_of(client, path):
    return b"".join(client.get(f"/api/v1/{path}"))


@pytest.mark.parametrize("seed", range(12))
def test_records_report_csv_and_parquet_say_the_same_in_any_zone(people, as_user, version, seed):
    chance = random.Random(seed)  # noqa: S311 - made-up questions
    zone = chance.choice(sorted(available_timezones() - {"localtime", "Factory"}))
    group = chance.choice(["user", "model", "version", "key", "end_user", "workflow", "outcome", "tenant"])
    time = chance.choice(["day", "hour", "month"])
    start = NOW - timedelta(seconds=chance.randrange(20 * 86_400))
    records = scatter(people, version, seed)
    where = f"start={start:%Y-%m-%dT%H:%M:%SZ}&end=2026-11-29T12:00:00Z&zone={quote(zone)}&group_by={time},{group}"
    client = as_user(people.operator)
    report = rest(client, f"usage/report/?{where}")
    lines = list(csv.DictReader(io.StringIO(file_of(client, f"usage/report.csv?{where}").decode())))
    table = pq.read_table(io.BytesIO(file_of(client, f"usage/report.parquet?{where}"))).to_pylist()
    first = start.replace(microsecond=0).timestamp()
    wanted = [record for record in records if first <= record.arrived_at < ARRIVED_AT_S]
    for name in ("request_count", "input_tokens", "output_tokens", "wasted_tokens"):
        total = sum(int(line[name]) for line in lines)
        assert total == report["totals"][name] == sum(row[name] for row in table), (zone, name)
    assert report["totals"]["request_count"] == len(wanted), zone
    assert report["totals"]["input_tokens"] == sum(record.input_tokens for record in wanted)
    in_database = UsageRecord.objects.filter(arrived_at__gte=start.replace(microsecond=0), arrived_at__lt=NOW)
    cost = sum((row.cost_usd for row in in_database), Decimal())
    assert (
        cost == sum((Decimal(line["cost_usd"]) for line in lines), Decimal()) == Decimal(report["totals"]["cost_usd"])
    )
    assert cost == sum((row["cost_usd"] for row in table), Decimal())
    assert len(lines) == len(table) == len(report["rows"])
    assert [line[time] for line in lines] == [row[time] for row in report["rows"]] == [str(row[time]) for row in table]


def test_every_request_is_in_the_local_hour_it_came_in_and_a_repeated_hour_stays_two(people, version):
    """Clocks in Berlin went back from 03:00 to 02:00 on 2026-10-25; in Kathmandu hours begin at :15 UTC."""
    fold = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    ingest(*(make_record(arrived_at=(fold + timedelta(hours=hour)).timestamp()) for hour in range(3)))
    scope = scope_for(actor=SYSTEM, start=fold - DAY, end=fold + DAY)
    hours = [
        row.hour.isoformat() for row in report_usage(scope=scope, group_by=["hour"], zone=ZoneInfo("Europe/Berlin"))
    ]
    assert sorted(hours) == ["2026-10-25T02:00:00+01:00", "2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00"]
    rows = report_usage(scope=scope, group_by=["hour"], zone=ZoneInfo("Asia/Kathmandu"))
    assert next(row.hour.isoformat() for row in rows) == "2026-10-25T06:00:00+05:45"
    assert sum(row.request_count for row in rows) == 3


def test_the_records_file_holds_every_record_with_its_types(people, as_user, version):
    records = scatter(people, version, 1, count=40)
    client = as_user(people.operator)
    table = pq.read_table(io.BytesIO(file_of(client, f"usage/records.parquet?{QUERY}")))
    assert sorted(table["record_id"].to_pylist()) == sorted(record.record_id for record in records)
    assert str(table.schema.field("cost_usd").type) == "decimal128(38, 12)"
    assert str(table.schema.field("arrived_at").type) == "timestamp[us, tz=UTC]"


# --- statement and FOCUS ----------------------------------------------------------------------------------------------


def test_a_statement_is_the_sum_of_its_parts_and_of_the_records(people, as_user, version):
    set_discount(
        actor=SYSTEM, tenant=people.tenant, model=None, discount_bp=2000, effective_from=NOW - 60 * DAY, now=NOW
    )
    scatter(people, version, 2)
    where = f"usage/statement/?tenant={people.tenant.pk}&month=2026-11&zone=Asia/Kolkata"
    statement = rest(as_user(people.finance), where)
    for part in ("by_version", "by_day"):
        total = sum((Decimal(row["cost_usd"]) for row in statement[part]), Decimal())
        assert total == Decimal(statement["totals"]["cost_usd"])
    assert statement["start"] == "2026-10-31T18:30:00Z"
    assert Decimal(statement["discount_usd"]) > 0
    assert not statement["is_final"]


def test_a_record_at_the_edge_of_a_month_is_in_the_statement_of_one_month_in_every_zone(people, as_user, version):
    """getlago/lago-api#879, #1074: a zone ahead of UTC was billed twice at the turn of the month."""
    edge = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
    hours = range(-13, 15)
    ingest(
        *(
            make_record(tenant_id=str(people.tenant.pk), version_id=str(version.pk), arrived_at=edge + hour * 3600)
            for hour in hours
        )
    )
    for zone in ("UTC", "Asia/Kolkata", "Pacific/Auckland", "America/Los_Angeles", "Asia/Kathmandu"):
        where = f"usage/statement/?tenant={people.tenant.pk}&zone={zone}&month="
        counts = [rest(as_user(people.finance), where + m)["totals"]["request_count"] for m in ("2026-10", "2026-11")]
        before = sum(datetime.fromtimestamp(edge + hour * 3600, ZoneInfo(zone)).month == 10 for hour in hours)
        assert counts == [before, len(hours) - before], zone


def test_a_statement_is_final_when_no_late_record_may_come_any_more(people, version):
    ingest(make_record(tenant_id=str(people.tenant.pk), version_id=str(version.pk)))
    facts = {"actor": SYSTEM, "tenant_id": people.tenant.pk, "first_day": date(2026, 11, 1), "zone": ZoneInfo("UTC")}
    over = datetime(2026, 12, 1, tzinfo=UTC)
    finals = [get_statement(**facts, now=over + timedelta(days=days)).is_final for days in (0, 6, 7)]
    assert finals == [False, False, True]


def test_a_statement_on_paper_is_a_pdf_with_the_amount(people, as_user, version):
    ingest(
        make_record(
            tenant_id=str(people.tenant.pk), version_id=str(version.pk), public_model="模型", output_tokens=10**8
        )
    )
    answer = as_user(people.finance).get(f"/api/v1/usage/statement.pdf?tenant={people.tenant.pk}&month=2026-11")
    text = text_of(answer.content)
    assert answer["Content-Type"] == "application/pdf"
    assert answer["Content-Disposition"] == 'attachment; filename="statement-gold-2026-11.pdf"'
    assert "Amount: 60.00 USD" in text
    assert "Tenant gold" in text


def text_of(pdf):
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)


@pytest.mark.parametrize(
    "name", ["Łódź", "Ελληνικά", "Русский", "模型公司", "日本語モデル", "한국어", "ქართული", "አማርኛ", "ลาว"]
)
def test_a_statement_prints_names_in_any_script(people, as_user, version, name):
    people.tenant.name = name
    people.tenant.save()
    ingest(make_record(tenant_id=str(people.tenant.pk), version_id=str(version.pk)))
    answer = as_user(people.finance).get(f"/api/v1/usage/statement.pdf?tenant={people.tenant.pk}&month=2026-11")
    assert f"Tenant {name}" in text_of(answer.content)


@pytest.mark.parametrize("month", ["2026-13", "2026-1", "1999-01", "x", "2026-11-01"])
def test_a_month_that_is_none_is_refused(people, as_user, month):
    answer = as_user(people.finance).get(f"/api/v1/usage/statement/?tenant={people.tenant.pk}&month={month}")
    assert answer.status_code == 400


# --- outcomes ---------------------------------------------------------------------------------------------------------


def told(people, *, is_success, at_s=5, **task):
    outcome = TaskOutcome(is_success=is_success, value_pico_usd=2 * 10**12, **task)
    return make_record(tenant_id=str(people.tenant.pk), arrived_at=ARRIVED_AT_S + at_s, task_outcome=outcome)


def asked(people, version, pico, **facts):
    return make_record(
        tenant_id=str(people.tenant.pk), version_id=str(version.pk), input_tokens=0, cached_input_tokens=0,
        output_tokens=pico, **facts,
    )  # fmt: skip


def test_a_success_costs_what_all_reported_tasks_cost_divided_by_the_successful_ones(people, version):
    ingest(
        asked(people, version, 100, request_id="good"),
        asked(people, version, 300, request_id="bad"),
        asked(people, version, 50, workflow_id="w", request_id="w-1"),
        asked(people, version, 50, workflow_id="w", request_id="w-2", outcome="failed", wasted_tokens=7),
        asked(people, version, 1000, request_id="never-reported"),
        told(people, is_success=True, request_id="good"),
        told(people, is_success=False, request_id="bad"),
        told(people, is_success=True, workflow_id="w"),
    )
    (row,) = report_outcomes(scope=scope_for(actor=SYSTEM, **ALL_TIME), group_by="version")
    token_usd = Decimal("0.0000006")
    assert (row.task_count, row.success_count, row.request_count) == (3, 2, 5)
    assert row.cost_per_success_usd == 500 * token_usd / 2
    assert (row.cost_usd, row.value_usd) == (1500 * token_usd, 4)
    assert row.failed_task_cost_usd == 300 * token_usd
    assert (row.waste.retries_usd, row.waste.failures_usd, row.waste.failed_count) == (7 * token_usd, 50 * token_usd, 1)
    assert sum_outcomes(scope=scope_for(actor=SYSTEM, **ALL_TIME)).cost_per_success_usd == row.cost_per_success_usd


def test_a_request_of_a_workflow_that_was_reported_about_is_no_task_beside_it(people, version):
    """Reported about both, its cost would be in both tasks, and tasks would cost more than there was."""
    ingest(
        asked(people, version, 100, workflow_id="w", request_id="w-1"),
        asked(people, version, 50, workflow_id="w", request_id="w-2"),
        asked(people, version, 30, workflow_id="untold", request_id="alone"),
        told(people, is_success=True, request_id="w-1"),
        told(people, is_success=True, request_id="alone"),
        told(people, is_success=False, workflow_id="w"),
    )
    (row,) = report_outcomes(scope=scope_for(actor=SYSTEM, **ALL_TIME), group_by="version")
    assert (row.task_count, row.success_count, row.task_cost_usd) == (2, 1, row.cost_usd)
    assert row.failed_task_cost_usd == 150 * Decimal("0.0000006")


@pytest.mark.parametrize("narrower", ["end_user=ann", "end_user=%14", "end=2026-11-01T00:05:00Z"])
def test_what_tasks_cost_may_be_asked_of_what_only_records_know(people, as_user, version, narrower):
    """An end user's, or a span within a quarter of an hour: nothing of it is in the sums of tasks."""
    ingest(
        asked(people, version, 100, request_id="good", end_user="ann"),
        told(people, is_success=True, request_id="good"),
    )
    report = rest(as_user(people.owner), f"usage/outcomes/?{QUERY}&{narrower}")
    assert [row["task_count"] for row in report["rows"]] == ([1] if narrower == "end_user=ann" else [])


def test_without_a_success_the_cost_of_one_is_not_known(people, version):
    ingest(asked(people, version, 100, request_id="bad"), told(people, is_success=False, request_id="bad"))
    (row,) = report_outcomes(scope=scope_for(actor=SYSTEM, **ALL_TIME), group_by="version")
    assert (row.task_count, row.cost_per_success_usd) == (1, None)


def test_a_stranger_cannot_report_about_or_see_the_requests_of_others(people, as_user, version):
    lie = TaskOutcome(is_success=True, request_id="good")
    ingest(
        asked(people, version, 100, request_id="good"),
        make_record(tenant_id=str(people.other.pk), task_outcome=lie),
    )
    assert sum_outcomes(scope=scope_for(actor=SYSTEM, **ALL_TIME)).task_count == 0
    assert rest(as_user(people.stranger), f"usage/outcomes/?{QUERY}")["rows"] == []
    assert len(rest(as_user(people.owner), f"usage/outcomes/?{QUERY}")["rows"]) == 1


# --- true cost --------------------------------------------------------------------------------------------------------


@pytest.fixture
def node(db, valkey):
    """Two accelerators, of which an hour costs two dollars each."""
    node = make_node(last_seen_at=NOW)
    for index in range(2):
        Accelerator.objects.create(node=node, index=index, key=f"gpu{index}", kind="gpu", name="NVIDIA H100 80GB HBM3")
    price = {"ownership": "owned", "effective_from": NOW - 60 * DAY, "now": NOW, "source": "a contract"}
    set_accelerator_price(actor=SYSTEM, accelerator_name="h100", hour_pico_usd=2 * 10**12, **price)
    set_accelerator_price(actor=SYSTEM, accelerator_name="", hour_pico_usd=9 * 10**12, **price)
    return node


def test_what_serving_costs_adds_up_to_all_accelerator_hours_and_idle_time_is_borne(people, version, node):
    meter_accelerators(now=NOW - timedelta(hours=1))
    meter_accelerators(now=NOW - timedelta(minutes=20))
    meter_accelerators(now=NOW)
    on_node = {
        "node_id": str(node.pk),
        "version_id": str(version.pk),
        "queue_ms": 0.0,
        "arrived_at": ARRIVED_AT_S - 3000,
    }
    ingest(
        make_record(tenant_id=str(people.tenant.pk), engine_ms=600_000.0, **on_node),
        make_record(tenant_id=str(people.other.pk), engine_ms=600_000.0, **on_node),
        make_record(
            tenant_id=str(people.tenant.pk), engine_ms=300_000.0, **on_node | {"arrived_at": ARRIVED_AT_S - 1200}
        ),
    )
    assert share_engine_time(now=NOW + timedelta(hours=2)) > 0
    assert share_engine_time(now=NOW + timedelta(hours=2)) == 0, "nothing has changed since"
    report = report_cost(scope=scope_for(actor=SYSTEM, **ALL_TIME), group_by="tenant")
    used = {row.name: row.used_s for row in report.rows}
    assert used == {"gold": 300 + 300, "batch": 300}
    assert (report.available_s, report.used_s, report.unborne_s) == (7200, 900, 0)
    assert report.cost_usd == 4
    assert sum(row.used_s + row.idle_s for row in report.rows) == report.available_s
    assert sum((row.cost_usd for row in report.rows), Decimal()) == report.cost_usd
    gold = next(row for row in report.rows if row.name == "gold")
    assert gold.idle_s == Decimal(6300) * 600 / 900


def test_a_late_record_shares_the_time_anew(people, version, node):
    run = {"node_id": str(node.pk), "version_id": str(version.pk), "queue_ms": 0.0, "engine_ms": 60_000.0}
    ingest(make_record(tenant_id=str(people.tenant.pk), **run))
    share_engine_time(now=NOW + timedelta(hours=2))
    ingest(make_record(tenant_id=str(people.other.pk), **run))
    share_engine_time(now=NOW + timedelta(hours=2))
    assert sorted(EngineShare.objects.values_list("busy_us", flat=True)) == [30_000_000, 30_000_000]


def test_what_nobody_uses_stays_with_nobody_and_is_shown(people, node):
    meter_accelerators(now=NOW - timedelta(hours=1))
    meter_accelerators(now=NOW)
    report = report_cost(scope=scope_for(actor=SYSTEM, **ALL_TIME), group_by="model")
    assert (report.unborne_s, report.unborne_usd, report.cost_usd) == (7200, 4, 4)


def test_an_accelerator_without_a_price_is_counted_and_said_to_have_none(db, valkey):
    node = make_node(last_seen_at=NOW)
    Accelerator.objects.create(node=node, index=0, kind="cpu", name="some CPU")
    meter_accelerators(now=NOW - timedelta(minutes=30))
    meter_accelerators(now=NOW)
    report = report_cost(scope=scope_for(actor=SYSTEM, **ALL_TIME), group_by="tenant")
    assert (report.available_s, report.unpriced_s) == (1800, 1800)
    assert [line.cost_usd for line in report.accelerators] == [None]


def test_true_cost_is_for_finance_alone_and_statements_for_their_tenant(people, as_user, version, node):
    month = f"tenant={people.tenant.pk}&month=2026-11"
    doors = {
        f"usage/cost/?{QUERY}": (403, 403, 403, 200),
        f"usage/cost.csv?{QUERY}": (403, 403, 403, 200),
        "accelerator-prices/": (403, 403, 403, 200),
        f"usage/statement/?{month}": (200, 200, 404, 200),
        f"usage/statement.pdf?{month}": (200, 200, 404, 200),
        f"usage/focus.csv?{QUERY}&tenant={people.tenant.pk}": (200, 200, 404, 200),
        f"usage/outcomes/?{QUERY}&tenant={people.tenant.pk}": (200, 200, 404, 200),
        f"usage/outcomes.csv?{QUERY}&tenant={people.tenant.pk}": (200, 200, 404, 200),
    }
    actors = (people.owner, people.teammate, people.stranger, people.finance)
    seen = {door: tuple(as_user(who).get(f"/api/v1/{door}").status_code for who in actors) for door in doors}
    assert seen == doors


def test_months_are_calendar_months(people, version):
    ingest(make_record(arrived_at=ARRIVED_AT_S - 29 * 86_400), make_record())
    scope = scope_for(actor=SYSTEM, start=NOW - 40 * DAY, end=NOW + DAY)
    rows = report_usage(scope=scope, group_by=["month"], zone=ZoneInfo("UTC"))
    assert [row.month for row in rows] == [date(2026, 10, 1), date(2026, 11, 1)]
