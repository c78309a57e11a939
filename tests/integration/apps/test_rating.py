"""The price book decides: at arrival, later for what had no price, and anew from a date when somebody says so."""

import random
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest

from apps.audit.models import AuditEntry
from apps.common.actors import SYSTEM
from apps.common.errors import ConflictError, InvalidInputError
from apps.registry.models import Model
from apps.routing.services.routes import create_route
from apps.routing.services.snapshots import compile_snapshot
from apps.usage.models import Rerating, UsageRecord
from apps.usage.selectors.reports import scope_for, sum_usage
from apps.usage.services import rating, rerating
from apps.usage.services.partitions import drop_old_partitions, make_partitions
from apps.usage.services.prices import set_discount, set_price
from apps.usage.services.rating import price_unpriced
from apps.usage.services.rerating import apply_rerating, cancel_rerating, run_reratings, start_rerating
from apps.usage.services.rollup_sql import ROLLUPS
from tests.factories.domain import NOW, make_version
from tests.factories.usage import ARRIVED_AT_S, ingest_records, make_record
from workers.contracts.pricing import cost_pico_usd, price_for
from workers.contracts.snapshot import Price

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

DAY = timedelta(days=1)
NODE = uuid4()


@pytest.fixture
def version(db, valkey):
    return make_version()


def price(subject, pico, *, since=-DAY, at=NOW, **more):
    kind = "model" if isinstance(subject, Model) else "version"
    amounts = Price(input_pico_usd=pico, cached_input_pico_usd=0, output_pico_usd=10 * pico, **more)
    return set_price(actor=SYSTEM, price=amounts, effective_from=NOW + since, now=at, **{kind: subject})


def ingest(*records):
    ingest_records(records=records, node_id=NODE, now=NOW)


def of(version, **facts):
    return make_record(version_id=str(version.pk), **facts)


def costs():
    return [row.cost_usd * 10**12 for row in UsageRecord.objects.order_by("sequence")]


def total():
    return sum_usage(scope=scope_for(actor=SYSTEM, start=NOW - 10 * DAY, end=NOW + DAY))


def rollups_agree():
    whole = sum((row.cost_usd for row in UsageRecord.objects.all()), Decimal())
    unpriced = UsageRecord.objects.filter(is_unpriced=True).count()
    for rollup in ROLLUPS:
        rows = list(rollup.objects.all())
        assert sum((row.cost_usd for row in rows), Decimal()) == whole
        assert sum(row.unpriced_count for row in rows) == unpriced
    return True


def test_a_record_costs_what_the_book_says_for_its_arrival(version):
    price(version, 1, since=-2 * DAY)
    price(version, 5, since=timedelta(hours=-1))
    ingest(of(version, arrived_at=ARRIVED_AT_S - 7200), of(version))
    assert costs() == [8 * 1 + 7 * 10, 8 * 5 + 7 * 50]


def test_a_models_price_counts_for_a_version_without_its_own(version):
    price(version.model, 3)
    ingest(of(version))
    assert costs() == [8 * 3 + 7 * 30]


def test_a_price_per_request_and_discounts_count(version, people):
    price(version, 100, request_pico_usd=1000)
    set_discount(actor=SYSTEM, tenant=people.tenant, model=None, discount_bp=1000, effective_from=NOW - DAY, now=NOW)
    ingest(of(version, tenant_id=str(people.tenant.pk)), of(version, tenant_id=str(people.other.pk)))
    whole = 8 * 100 + 7 * 1000 + 1000
    assert costs() == [whole * 9 // 10, whole]


def test_a_record_without_a_price_is_stored_unpriced_and_priced_when_there_is_one(version):
    ingest(of(version), of(version))
    assert (total().unpriced_count, total().cost_usd) == (2, 0)
    assert price_unpriced() == 0
    price(version, 2)
    assert price_unpriced() == 2
    assert (total().unpriced_count, total().cost_usd) == (0, Decimal(2 * (8 * 2 + 7 * 20)) / 10**12)
    assert rollups_agree()


def test_a_free_version_is_priced_at_nothing_and_waits_for_nobody(version):
    price(version, 0)
    ingest(of(version))
    assert total().unpriced_count == 0


def test_unpriced_records_are_priced_in_batches(version, monkeypatch):
    monkeypatch.setattr(rating, "BATCH_RECORDS", 2)
    ingest(*(of(version) for _ in range(5)))
    price(version, 2)
    assert price_unpriced() == 5
    assert rollups_agree()


def test_a_line_from_the_same_time_corrects_the_one_before_it(version, people):
    for pico in (9, 2):
        price(version, pico, since=-DAY, at=NOW + timedelta(seconds=pico == 2))
    for discount_bp in (5000, 1000):
        at = NOW + timedelta(seconds=discount_bp == 1000)
        set_discount(
            actor=SYSTEM, tenant=people.tenant, model=None, discount_bp=discount_bp, effective_from=NOW - DAY, now=at
        )
    ingest(of(version), of(version, tenant_id=str(people.tenant.pk)))
    assert costs() == [8 * 2 + 7 * 20, 140]


def test_the_same_line_again_is_refused(version, people):
    price(version, 2)
    with pytest.raises(ConflictError, match="says so already"):
        price(version, 2, at=NOW + DAY)
    discount = {"tenant": people.tenant, "model": None, "discount_bp": 100, "effective_from": NOW}
    set_discount(actor=SYSTEM, now=NOW, **discount)
    with pytest.raises(ConflictError, match="says so already"):
        set_discount(actor=SYSTEM, now=NOW + DAY, **discount)


# --- re-rating --------------------------------------------------------------------------------------------------------


def scatter(version, people, count=60):
    chance = random.Random(3)  # noqa: S311 - made-up usage
    tenants = [str(people.tenant.pk), str(people.other.pk)]
    ingest(
        *(
            of(
                version,
                tenant_id=chance.choice(tenants),
                arrived_at=ARRIVED_AT_S - chance.randrange(5 * 86_400),
                input_tokens=chance.randrange(4, 5000),
                output_tokens=chance.randrange(500),
                workflow_id=chance.choice(["", "w1", "w2"]),
            )
            for _ in range(count)
        )
    )


def started(start=NOW - 3 * DAY, end=NOW + DAY):
    row = start_rerating(actor=SYSTEM, start=start, end=end, reason="a new contract", now=NOW)
    run_reratings(now=NOW)
    row.refresh_from_db()
    return row


def applied(row):
    apply_rerating(actor=SYSTEM, rerating=row, now=NOW)
    run_reratings(now=NOW)
    row.refresh_from_db()
    return row


@pytest.mark.parametrize("batch", [7, 5000])
def test_a_rerating_does_what_its_preview_said_and_the_sums_follow(version, people, monkeypatch, batch):
    monkeypatch.setattr(rating, "BATCH_RECORDS", batch)
    monkeypatch.setattr(rerating, "BATCH_RECORDS", batch)
    price(version, 10, since=-9 * DAY)
    scatter(version, people)
    before = total().cost_usd
    price(version, 7, since=-2 * DAY)
    row = started()
    assert row.state == "previewed"
    assert total().cost_usd == before, "a preview changes nothing"
    row = applied(row)
    assert (row.state, row.result) == ("applied", row.preview)
    change = sum(line["after_pico_usd"] - line["before_pico_usd"] for line in row.preview.values())
    assert change < 0
    assert total().cost_usd == before + Decimal(change) / 10**12
    assert set(row.preview) == {str(people.tenant.pk), str(people.other.pk)}
    assert rollups_agree()


def test_records_before_the_date_keep_their_cost_and_those_after_name_their_rerating(version):
    price(version, 10, since=-9 * DAY)
    ingest(of(version, arrived_at=ARRIVED_AT_S - 4 * 86_400), of(version, arrived_at=ARRIVED_AT_S - 86_400))
    price(version, 1, since=-8 * DAY)
    applied(started())
    assert costs() == [8 * 10 + 7 * 100, 8 + 70]
    assert list(UsageRecord.objects.order_by("sequence").values_list("rerating", flat=True)) == [0, 1]


def test_a_rerating_says_nothing_of_what_the_gateway_counted_when_the_record_came(version):
    price(version, 10, since=-9 * DAY)
    right, wrong = of(version, cost_pico_usd=8 * 10 + 7 * 100), of(version, cost_pico_usd=1)
    ingest(right, wrong)
    price(version, 1, since=-8 * DAY)
    applied(started())
    assert costs() == [8 + 70, 8 + 70]
    flags = {str(row.record_id): (row.rerating, row.is_cost_mismatch) for row in UsageRecord.objects.all()}
    assert flags == {right.record_id: (1, False), wrong.record_id: (1, True)}


def test_a_rerating_prices_by_the_book_as_of_its_start_whatever_is_added_meanwhile(version):
    price(version, 10, since=-9 * DAY)
    ingest(of(version))
    price(version, 2, since=-2 * DAY)
    row = started()
    price(version, 50, since=-DAY, at=NOW + timedelta(minutes=5))
    assert applied(row).result == row.preview
    assert costs() == [8 * 2 + 7 * 20]


def test_a_crash_in_the_middle_counts_nothing_twice(version, people, monkeypatch):
    monkeypatch.setattr(rating, "BATCH_RECORDS", 10)
    monkeypatch.setattr(rerating, "BATCH_RECORDS", 10)
    price(version, 10, since=-9 * DAY)
    scatter(version, people)
    price(version, 3, since=-9 * DAY + timedelta(hours=1))
    row = started()
    apply_rerating(actor=SYSTEM, rerating=row, now=NOW)
    written, write = [], rerating.write_ratings

    def dies_at_the_third(*args, **kwargs):
        written.append(1)
        write(*args, **kwargs)
        if len(written) == 3:
            raise RuntimeError("the process dies")

    monkeypatch.setattr(rerating, "write_ratings", dies_at_the_third)
    with pytest.raises(RuntimeError):
        run_reratings(now=NOW)
    monkeypatch.setattr(rerating, "write_ratings", write)
    run_reratings(now=NOW)
    row.refresh_from_db()
    assert (row.state, row.result) == ("applied", row.preview)
    assert rollups_agree()


def test_a_rerating_is_confirmed_or_cancelled_once_and_each_step_is_audited(version):
    row = started()
    cancel_rerating(actor=SYSTEM, rerating=row, now=NOW)
    with pytest.raises(ConflictError):
        apply_rerating(actor=SYSTEM, rerating=row, now=NOW)
    actions = list(AuditEntry.objects.filter(subject_type="rerating").values_list("action", flat=True))
    assert sorted(actions) == ["rerating.cancelled", "rerating.started"]


def test_what_is_dropped_cannot_be_priced_anew(version):
    make_partitions(now=NOW)
    ingest(of(version, arrived_at=ARRIVED_AT_S - 6 * 86_400), of(version))
    drop_old_partitions(now=NOW + 30 * DAY, keep_days=31)
    with pytest.raises(InvalidInputError, match="records are kept from"):
        start_rerating(actor=SYSTEM, start=NOW - 8 * DAY, end=NOW, reason="too far", now=NOW)
    assert Rerating.objects.count() == 0


def test_the_three_actors_and_finance_on_prices_discounts_and_reratings(version, people, as_user):
    row = started()
    doors = ["prices/", "discounts/", "reratings/", f"reratings/{row.pk}/", "usage/health/", "usage/quarantine/"]
    for door in doors:
        seen = {who: as_user(getattr(people, who)).get(f"/api/v1/{door}").status_code for who in WHO}
        assert seen == {"owner": 403, "teammate": 403, "stranger": 403, "finance": 200, "operator": 200}, door
    confirm = {"action": "apply"}
    for who in ("owner", "teammate", "stranger"):
        assert as_user(getattr(people, who)).post(f"/api/v1/reratings/{row.pk}/", confirm).status_code == 403
    assert as_user(people.finance).post(f"/api/v1/reratings/{row.pk}/", confirm).status_code == 202


WHO = ("owner", "teammate", "stranger", "finance", "operator")


def test_finance_sets_prices_for_models_and_discounts_by_rest(version, people, as_user):
    client = as_user(people.finance)
    amounts = {"input_pico_usd": 10, "cached_input_pico_usd": 5, "output_pico_usd": 20}
    for_model = {"model_id": str(version.model_id), "request_pico_usd": 3, "batch_discount_bp": 5000} | amounts
    dearer_when_cached = client.post("/api/v1/prices/", for_model | {"cached_input_pico_usd": 10**9})
    assert dearer_when_cached.status_code == 400
    assert dearer_when_cached.json()["detail"] == "The rule “cached input costs no more” would be broken."
    of_model = client.post("/api/v1/prices/", for_model).json()
    assert (of_model["model"], of_model["version"]) == (version.model.name, None)
    both = for_model | {"version_id": str(version.pk)}
    assert client.post("/api/v1/prices/", both).status_code == 400
    assert client.post("/api/v1/prices/", amounts).status_code == 400
    discount = {"tenant_id": str(people.tenant.pk), "discount_bp": 500}
    assert client.post("/api/v1/discounts/", discount).status_code == 201
    assert client.post("/api/v1/discounts/", discount | {"discount_bp": 10_001}).status_code == 400
    begun = client.post("/api/v1/reratings/", {"start": (NOW - DAY).isoformat(), "reason": "contract"})
    assert begun.status_code == 202
    assert client.post("/api/v1/reratings/", {"start": "2100-01-01T00:00:00Z", "reason": "x"}).status_code == 400


def test_gateways_are_told_what_the_book_says(version, people):
    """So that they count the same at once: price per request, batch discount, and each tenant's own discounts."""
    create_route(actor=SYSTEM, public_name="demo-chat", weights={version.pk: 1}, now=NOW)
    price(version.model, 10, request_pico_usd=3)
    set_discount(actor=SYSTEM, tenant=people.tenant, model=None, discount_bp=500, effective_from=NOW - DAY, now=NOW)
    told = {"tenant": people.tenant, "effective_from": NOW - DAY, "now": NOW}
    set_discount(actor=SYSTEM, model=version.model, discount_bp=700, **told)
    snapshot = compile_snapshot(generation=1, pools=[], now=NOW)
    (compiled,) = snapshot.versions
    discounts = {tenant.name: tenant.discounts_bp for tenant in snapshot.tenants}
    assert (compiled.price.input_pico_usd, compiled.price.request_pico_usd) == (10, 3)
    assert discounts == {"gold": {"": 500, version.model.name: 700}, "batch": {}}
    ingest(of(version, tenant_id=str(people.tenant.pk), cost_pico_usd=charged_by(snapshot, people.tenant)))
    assert not UsageRecord.objects.get().is_cost_mismatch


def charged_by(snapshot, tenant):
    policy = next(each for each in snapshot.tenants if each.tenant_id == str(tenant.pk))
    found = price_for(snapshot.versions[0], policy)
    return cost_pico_usd(found, input_tokens=12, cached_input_tokens=4, output_tokens=7)


def test_the_largest_record_at_the_highest_price_is_stored_and_a_higher_price_is_refused(version):
    highest = Price(input_pico_usd=10**12, cached_input_pico_usd=0, output_pico_usd=10**12, request_pico_usd=10**15)
    with pytest.raises(InvalidInputError):
        price(version, 10**12 + 1)
    set_price(actor=SYSTEM, version=version, price=highest, effective_from=NOW - DAY, now=NOW)
    largest = {"input_tokens": 10**11, "cached_input_tokens": 0, "output_tokens": 10**11, "wasted_tokens": 10**11}
    ingest_records(records=[make_record(version_id=str(version.pk), **largest)], node_id=NODE, now=NOW)
    assert UsageRecord.objects.get().cost_usd == 2 * 10**11 + 1000
