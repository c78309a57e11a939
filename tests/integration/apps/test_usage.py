"""Usage: stored exactly once; records, rollups, REST and CSV agree to the last token in every zone."""

import csv
import io
import random
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from django.db import connection

from apps.common.actors import SYSTEM
from apps.tenants.services import create_key, revoke_key
from apps.tenants.services.people import change_access
from apps.usage.models import QuarantinedRecord, UsageRecord, UsageSlot
from apps.usage.selectors.records import count_newer_records, page_of_records
from apps.usage.selectors.reports import rank_usage, report_usage, scope_for, sum_usage
from apps.usage.services.partitions import make_partitions
from apps.usage.services.prices import set_price
from tests.factories.domain import NOW, make_user, make_version
from tests.factories.usage import ARRIVED_AT_S, ingest_records, make_record
from workers.contracts.snapshot import Price

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

NODE = uuid4()
DAY_S = 86_400


def ingest(records):
    counts = ingest_records(records=records, node_id=NODE, now=NOW)
    return counts.stored, counts.duplicate


def test_a_record_sent_again_is_a_duplicate_and_counts_once():
    record = make_record(input_tokens=100)
    assert ingest([record, make_record()]) == (2, 0)
    assert ingest([record]) == (0, 1)
    assert UsageRecord.objects.count() == 2
    assert sum(row.input_tokens for row in UsageSlot.objects.all()) == 112


def test_a_record_twice_in_one_batch_counts_once():
    record = make_record()
    assert ingest([record, record]) == (1, 1)


def test_an_empty_batch_is_fine():
    assert ingest([]) == (0, 0)


def test_every_field_of_a_record_is_kept():
    ids = {name: str(uuid4()) for name in ("version_id", "deployment_id", "endpoint_id", "node_id")}
    record = make_record(
        **ids,
        tags={"team": "a"},
        error_code="x",
        reasoning_tokens=3,
        cost_pico_usd=1_234_567_890_123,
        workflow_id="w",
        wasted_tokens=9,
        engine_ms=12.5,
    )
    ingest([record])
    row = UsageRecord.objects.get()
    assert row.arrived_at.timestamp() == record.arrived_at
    assert str(row.replica_id) == record.endpoint_id
    assert row.cost_usd == Decimal("1.234567890123")
    same = set(record.__struct_fields__) - {"arrived_at", "endpoint_id", "cost_pico_usd", "task_outcome"}
    assert {name: getattr(row, name) for name in same} == {
        name: uuid_or_value(name, getattr(record, name)) for name in same
    }


def uuid_or_value(name, value):
    is_id = name.endswith("_id") and name not in {"gateway_id", "boot_id", "request_id", "workflow_id"}
    return type(NODE)(value) if is_id else value


def test_a_text_that_postgres_cannot_hold_is_shortened_and_freed_of_nul():
    ingest([make_record(end_user="a\x00b" + "x" * 1000, tags={"k\x00": "v\x00"})])
    row = UsageRecord.objects.get()
    assert row.end_user == ("ab" + "x" * 1000)[:256]
    assert row.tags == {"k": "v"}


def test_a_record_that_cannot_be_a_row_is_quarantined_once_and_stops_nothing():
    bad = make_record(record_id="nonsense")
    assert ingest([make_record(), bad]) == (2, 0)
    assert ingest([bad]) == (0, 1)
    assert QuarantinedRecord.objects.get().reason == "record_id is not a UUID"
    assert UsageRecord.objects.count() == 1


def test_a_cost_that_is_not_the_price_books_is_flagged_and_kept():
    version = make_version()
    set_price(
        actor=SYSTEM,
        version=version,
        price=Price(input_pico_usd=10, cached_input_pico_usd=1, output_pico_usd=100),
        effective_from=NOW - timedelta(days=1),
        now=NOW,
    )
    right = make_record(version_id=str(version.pk), cost_pico_usd=8 * 10 + 4 * 1 + 7 * 100)
    wrong = make_record(version_id=str(version.pk), cost_pico_usd=1)
    ingest([right, wrong])
    flags = dict(UsageRecord.objects.values_list("record_id", "is_cost_mismatch"))
    assert {str(record_id): flag for record_id, flag in flags.items()} == {
        right.record_id: False,
        wrong.record_id: True,
    }


@pytest.mark.django_db(transaction=True)
def test_batches_that_overlap_at_the_same_time_still_count_once():
    records = [make_record() for _ in range(200)]
    batches = [records[:150], list(reversed(records[50:])), records[25:175]]
    results = []

    def send(batch):
        results.append(ingest(batch))
        connection.close()

    threads = [threading.Thread(target=send, args=[batch]) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(stored for stored, _ in results) == 200
    assert UsageRecord.objects.count() == 200
    assert sum(row.request_count for row in UsageSlot.objects.all()) == 200


def test_records_of_one_and_the_same_moment_are_on_one_page_each_both_ways(client):
    """A cursor that named the moment alone, with an offset, would end after a thousand."""
    ingest([make_record() for _ in range(1250)])
    client.force_login(make_user(username="op", is_operator=True))
    forth, url = [], f"/api/v1/usage/records/?page_size=500&start={NOW - timedelta(days=2):%FT%TZ}"
    while url:
        page, last = client.get(url).json(), url
        forth, url = [*forth, *(row["record_id"] for row in page["results"])], page["next"]
    assert len(forth) == len(set(forth)) == 1250
    back, url = [], last
    while url:
        page = client.get(url).json()
        back, url = [*(row["record_id"] for row in page["results"]), *back], page["previous"]
    assert back == forth
    scope = scope_for(actor=SYSTEM, start=NOW - timedelta(days=2), end=NOW + timedelta(days=1))
    shown, has_more = page_of_records(scope=scope, before=UUID(forth[1099]), size=200)
    assert ([str(row.record_id) for row in shown], has_more) == (forth[1100:], False)
    assert count_newer_records(scope=scope, than=UUID(forth[5])) == 5


# --- partitions -------------------------------------------------------------------------------------------------------


def partition_of(record):
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM usage_record WHERE record_id = %s", [record.record_id])
        return cursor.fetchone()[0]


def test_what_came_before_its_partition_moves_into_it_and_stays_counted():
    early = make_record()
    ingest([early])
    assert partition_of(early) == "usage_record_default"
    assert "usage_record_20261129" in make_partitions(now=NOW)
    assert partition_of(early) == "usage_record_20261129"
    assert ingest([early]) == (0, 1)


def test_partitions_are_made_a_week_ahead_and_only_once():
    assert len(make_partitions(now=NOW)) == 15
    assert make_partitions(now=NOW) == []
    ahead = make_record(arrived_at=ARRIVED_AT_S + 7 * DAY_S)
    ingest([ahead])
    assert partition_of(ahead) == "usage_record_20261206"


# --- reports ----------------------------------------------------------------------------------------------------------


def scatter(people, count=400):
    """Records over six days, two tenants, three users, three models and all outcomes."""
    chance = random.Random(7)  # noqa: S311 - made-up usage
    tenants = [(people.tenant, people.owner), (people.tenant, people.teammate), (people.other, people.stranger)]
    made = []
    for _ in range(count):
        tenant, user = chance.choice(tenants)
        made.append(
            make_record(
                tenant_id=str(tenant.pk),
                user_id=str(user.pk),
                public_model=chance.choice(["demo-chat", "demo-embed", "=evil"]),
                arrived_at=ARRIVED_AT_S - chance.randrange(6 * DAY_S) + chance.random(),
                outcome=chance.choice(["completed", "completed", "client_left", "failed"]),
                input_tokens=chance.randrange(4, 4000),
                output_tokens=chance.randrange(500),
                cost_pico_usd=chance.randrange(10**12),
            )
        )
    assert ingest(made) == (count, 0)
    return made


START, END = datetime(2026, 11, 20, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "Pacific/Chatham"]


def expected(records, zone):
    sums = {}
    for record in records:
        day = datetime.fromtimestamp(record.arrived_at, ZoneInfo(zone)).date()
        group = sums.setdefault((day, record.tenant_id, record.public_model), [0, 0, 0, Decimal()])
        group[0] += 1
        group[1] += record.input_tokens
        group[2] += record.output_tokens
        group[3] += Decimal(record.cost_pico_usd) / 10**12
    return sums


@pytest.mark.parametrize("zone", ZONES)
def test_a_report_by_day_agrees_with_the_records_in_every_zone(people, zone):
    records = scatter(people)
    scope = scope_for(actor=SYSTEM, start=START, end=END)
    rows = report_usage(scope=scope, group_by=["day", "tenant", "model"], zone=ZoneInfo(zone))
    found = {
        (row.day, row.ids["tenant"], row.ids["model"]): [
            row.request_count, row.input_tokens, row.output_tokens, row.cost_usd,
        ]
        for row in rows
    }  # fmt: skip
    assert found == expected(records, zone)


def test_the_sum_of_the_rollup_is_the_sum_of_the_records(people):
    records = scatter(people)
    totals = sum_usage(scope=scope_for(actor=SYSTEM, start=START, end=END))
    odd_start = sum_usage(scope=scope_for(actor=SYSTEM, start=START + timedelta(seconds=1), end=END))
    assert totals == odd_start
    assert totals.cost_usd == Decimal(sum(record.cost_pico_usd for record in records)) / 10**12
    assert totals.unsuccessful_count == sum(record.outcome != "completed" for record in records)


@pytest.mark.parametrize("minutes", [0, 7], ids=["whole days", "a range that cuts a slot"])
def test_the_greatest_are_those_of_the_whole_report(people, minutes):
    scatter(people)
    start = START - timedelta(days=1)
    scope = scope_for(actor=SYSTEM, start=start.replace(hour=0, minute=minutes), end=END + timedelta(days=2))
    for group in ("tenant", "user", "model", "key", "end_user", "workflow"):
        rows = report_usage(scope=scope, group_by=[group], zone=ZoneInfo("UTC"))
        greatest = rank_usage(scope=scope, group=group, by="output_tokens", size=2)
        assert [row.output_tokens for row in greatest] == sorted((row.output_tokens for row in rows), reverse=True)[:2]
        assert all(row in rows for row in greatest)


def test_who_and_what_is_gone_keeps_its_name_and_its_spend(people):
    """BerriAI/litellm#24225, #25710, onyx-dot-app/onyx#13563: what a deleted key or user had spent left the reports."""
    key, _ = create_key(actor=SYSTEM, tenant=people.tenant, name="gone", owner_id=people.teammate.pk, now=NOW)
    ids = {"tenant_id": str(people.tenant.pk), "key_id": str(key.pk), "user_id": str(people.teammate.pk)}
    ingest([make_record(**ids)])
    scope = scope_for(actor=SYSTEM, start=START, end=END)
    before = sum_usage(scope=scope)
    revoke_key(actor=SYSTEM, key=key, now=NOW)
    change_access(actor=SYSTEM, user=people.teammate, is_active=False, now=NOW)
    assert sum_usage(scope=scope) == before
    [row] = report_usage(scope=scope, group_by=["tenant", "key", "user"], zone=ZoneInfo("UTC"))
    assert row.names["key"].startswith("gone")
    assert (row.names["tenant"], row.names["user"]) == (people.tenant.name, people.teammate.username)


def test_a_range_within_an_hour_is_cut_to_the_second(people):
    ingest([make_record(arrived_at=ARRIVED_AT_S + offset) for offset in (0, 10, 20)])
    start = datetime.fromtimestamp(ARRIVED_AT_S + 10, UTC)
    scope = scope_for(actor=SYSTEM, start=start, end=start + timedelta(seconds=10))
    assert sum_usage(scope=scope).request_count == 1


QUERY = "start=2026-11-20&end=2026-12-01&zone=Europe/Berlin"


def test_rest_and_csv_say_the_same(people, as_user):
    scatter(people)
    client = as_user(people.operator)
    report = client.get(f"/api/v1/usage/report/?{QUERY}&group_by=day,user,model").json()
    text = b"".join(client.get(f"/api/v1/usage/report.csv?{QUERY}&group_by=day,user,model")).decode()
    lines = list(csv.DictReader(io.StringIO(text)))
    assert len(lines) == len(report["rows"])
    for column in ("request_count", "input_tokens", "output_tokens"):
        assert sum(int(line[column]) for line in lines) == report["totals"][column]
    assert sum(Decimal(line["cost_usd"]) for line in lines) == Decimal(report["totals"]["cost_usd"])
    assert {line["user"] for line in lines} == {"owner", "teammate", "stranger"}
    assert "'=evil" in {line["model"] for line in lines}


@pytest.mark.parametrize("door", ["usage/report/", "usage/records/", "usage/records.csv", "usage/cost/", "audit/"])
def test_a_misspelt_filter_is_not_taken_for_everybody(people, as_user, door):
    answer = as_user(people.operator).get(f"/api/v1/{door}?tenant_id={people.tenant.pk}")
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == ["tenant_id"]


def test_the_pages_of_records_hold_each_of_them_once(people, as_user):
    records = scatter(people, count=120)
    client, path, seen = as_user(people.operator), f"/api/v1/usage/records/?{QUERY}&page_size=50", []
    while path:
        page = client.get(path).json()
        seen += [row["record_id"] for row in page["results"]]
        path = page["next"]
    assert sorted(seen) == sorted(record.record_id for record in records)


def test_usage_is_seen_by_owner_and_teammate_and_not_by_the_stranger(people, as_user):
    records = scatter(people)
    of_gold = sum(record.tenant_id == str(people.tenant.pk) for record in records)
    path = f"/api/v1/usage/report/?{QUERY}&group_by=tenant"

    def count(user, query=""):
        return as_user(user).get(path + query).json()["totals"]["request_count"]

    assert count(people.owner) == of_gold
    assert count(people.teammate) == of_gold
    assert count(people.stranger) == len(records) - of_gold
    assert count(people.finance) == count(people.operator) == len(records)
    assert count(people.finance, f"&tenant={people.tenant.pk}") == of_gold
    for door in ("report/", "report.csv", "records/", "records.csv"):
        asked = as_user(people.stranger).get(f"/api/v1/usage/{door}?{QUERY}&tenant={people.tenant.pk}")
        assert asked.status_code == 404


def test_no_record_of_another_tenant_is_in_a_page_or_an_export(people, as_user):
    scatter(people)
    client = as_user(people.stranger)
    page = client.get(f"/api/v1/usage/records/?{QUERY}&page_size=500").json()["results"]
    assert {row["tenant_id"] for row in page} == {str(people.other.pk)}
    export = b"".join(client.get(f"/api/v1/usage/records.csv?{QUERY}")).decode()
    assert str(people.tenant.pk) not in export


def test_reports_name_keys_without_showing_them(people, as_user):
    key, text = create_key(actor=SYSTEM, tenant=people.tenant, name="ci", now=NOW)
    ingest([make_record(tenant_id=str(people.tenant.pk), key_id=str(key.pk))])
    rows = as_user(people.owner).get(f"/api/v1/usage/report/?{QUERY}&group_by=key").json()["rows"]
    assert rows[0]["names"]["key"] == f"ci (ty-{key.prefix}…)"
    assert text not in str(rows)


def test_prices_are_set_by_finance_and_seen_by_no_tenant(people, as_user):
    version = make_version()
    new = {"version_id": str(version.pk), "input_pico_usd": 10, "cached_input_pico_usd": 5, "output_pico_usd": 20}
    assert as_user(people.finance).post("/api/v1/prices/", new).status_code == 201
    assert as_user(people.owner).get("/api/v1/prices/").status_code == 403
    dearer = new | {"cached_input_pico_usd": 11}
    assert as_user(people.finance).post("/api/v1/prices/", dearer).status_code == 400
