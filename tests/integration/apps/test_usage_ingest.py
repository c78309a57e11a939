"""What comes twice, contradicts, cannot be read, or is missing: nothing counts twice, and nothing is lost unseen."""

from datetime import timedelta
from uuid import uuid4

import msgspec
import pytest

from apps.common.actors import SYSTEM
from apps.common.errors import ConflictError
from apps.usage.models import QuarantinedRecord, TaskOutcome, UsageByEndUser, UsageByModel, UsageRecord, UsageSlot
from apps.usage.selectors.health import get_record_health
from apps.usage.services import outcomes as outcome_services
from apps.usage.services.partitions import drop_old_partitions, make_partitions
from apps.usage.services.quarantine import release_record
from apps.usage.services.rollup_sql import ROLLUPS
from tests.factories.domain import NOW
from tests.factories.usage import ARRIVED_AT_S, ingest_records, make_record
from workers.contracts import outcomes

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

NODE = uuid4()
DAY_S = 86_400


def ingest(*records, now=NOW, undecodable=()):
    counts = ingest_records(records=records, node_id=NODE, now=now, undecodable=undecodable)
    return counts.stored, counts.duplicate


def reasons():
    return [row.reason for row in QuarantinedRecord.objects.order_by("id")]


def changed(record, **changes):
    return msgspec.structs.replace(record, **changes)


def test_a_record_that_contradicts_the_stored_one_is_set_aside_once_and_counts_nothing():
    record = make_record(output_tokens=7)
    ingest(record)
    liar = changed(record, output_tokens=70)
    assert ingest(liar) == (1, 0)
    assert ingest(liar) == (0, 1)
    assert reasons() == ["contradicts the record that is stored under its id"]
    assert UsageRecord.objects.get().output_tokens == 7


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_two_records_with_one_number_do_not_both_count(in_one_batch):
    first = make_record()
    second = changed(make_record(), sequence=first.sequence)
    if in_one_batch:
        assert ingest(first, second) == (2, 0)
    else:
        assert (ingest(first), ingest(second)) == ((1, 0), (1, 0))
    assert reasons() == [f"number {first.sequence} of this gateway belongs to another record"]
    assert str(UsageRecord.objects.get().record_id) == first.record_id


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_one_id_under_two_numbers_counts_once(in_one_batch):
    first = make_record()
    second = changed(first, sequence=make_record().sequence)
    if in_one_batch:
        assert ingest(first, second) == (2, 0)
    else:
        assert (ingest(first), ingest(second)) == ((1, 0), (1, 0))
    assert UsageRecord.objects.count() == 1
    assert len(reasons()) == 1


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_a_request_that_two_gateways_settled_under_one_id_counts_once_as_it_came_first(in_one_batch):
    answered = make_record(output_tokens=7)
    asked = changed(
        answered, gateway_id="gateway-2", boot_id="boot-2", sequence=1, outcome="refused", output_tokens=0, status=503
    )
    if in_one_batch:
        assert ingest(answered, asked) == (1, 1)
    else:
        assert (ingest(answered), ingest(asked)) == ((1, 0), (0, 1))
    assert reasons() == []
    assert UsageRecord.objects.get().output_tokens == 7


@pytest.mark.parametrize("told", [{"request_id": "other"}, {"key_id": str(uuid4())}, {"tenant_id": str(uuid4())}])
def test_another_gateways_record_under_the_same_id_is_set_aside_if_it_is_of_another_request(told):
    record = make_record()
    ingest(record)
    assert ingest(changed(record, gateway_id="gateway-2", sequence=1, **told)) == (1, 0)
    assert reasons() == ["contradicts the record that is stored under its id"]


def test_a_record_under_another_time_is_a_contradiction_too():
    record = make_record()
    ingest(record)
    assert ingest(changed(record, arrived_at=ARRIVED_AT_S + DAY_S)) == (1, 0)
    assert UsageRecord.objects.count() == 1


def test_a_record_in_another_spelling_of_its_id_is_the_same_record():
    record = make_record()
    ingest(record)
    assert ingest(changed(record, record_id=record.record_id.upper())) == (0, 1)


@pytest.mark.parametrize("part", ["queue_ms", "ttft_ms", "engine_ms"])
def test_a_part_of_the_time_that_cannot_be_is_unknown_and_costs_nobody_the_record(part):
    assert ingest(make_record(**{part: -5.04}), make_record(**{part: 7.5}), make_record(**{part: None})) == (3, 0)
    assert reasons() == []
    assert list(UsageRecord.objects.order_by("sequence").values_list(part, flat=True)) == [None, 7.5, None]


def test_what_cannot_be_read_is_kept_as_it_came_and_the_rest_is_stored():
    line = b'{"record_id": 5}'
    assert ingest(make_record(), undecodable=[line]) == (2, 0)
    assert ingest(undecodable=[line]) == (0, 1)
    assert bytes(QuarantinedRecord.objects.get().content) == line


def test_gaps_are_seen_and_filled_by_what_comes_late():
    boot = {"gateway_id": "gw", "boot_id": "gaps"}
    ingest(*(make_record(**boot, sequence=number) for number in (1, 2, 5, 9)))
    (source,) = get_record_health(since=NOW - timedelta(days=1)).sources
    assert (source.gaps, source.missing_count) == ([(3, 5), (6, 9)], 5)
    ingest(*(make_record(**boot, sequence=number) for number in (3, 4, 6, 7, 8)))
    assert get_record_health(since=NOW - timedelta(days=1)).missing_count == 0


def test_a_record_in_quarantine_leaves_no_gap():
    boot = {"gateway_id": "gw", "boot_id": "bad"}
    ingest(
        make_record(**boot, sequence=1), make_record(**boot, sequence=2, tenant_id="x"), make_record(**boot, sequence=3)
    )
    assert get_record_health(since=NOW - timedelta(days=1)).missing_count == 0


def test_a_week_old_record_is_stored_and_known_to_be_late():
    ingest(make_record(arrived_at=ARRIVED_AT_S - 7 * DAY_S))
    row = UsageRecord.objects.get()
    assert row.received_at - row.arrived_at == timedelta(days=7)


def test_a_record_of_a_dropped_day_waits_for_somebody_to_decide(settings):
    settings.USAGE_KEEP_DAYS = 10
    late = make_record(arrived_at=ARRIVED_AT_S - 20 * DAY_S)
    assert ingest(late) == (1, 0)
    row = QuarantinedRecord.objects.get()
    release_record(actor=SYSTEM, quarantined=row, now=NOW)
    assert UsageRecord.objects.count() == 1
    with pytest.raises(ConflictError):
        release_record(actor=SYSTEM, quarantined=row, now=NOW)
    assert UsageSlot.objects.get().request_count == 1


def test_what_contradicts_is_never_released():
    record = make_record()
    ingest(record, changed(record, output_tokens=99))
    with pytest.raises(ConflictError):
        release_record(actor=SYSTEM, quarantined=QuarantinedRecord.objects.get(), now=NOW)


def test_dropping_old_days_takes_records_and_leaves_their_sums_and_their_numbers():
    old = make_record(arrived_at=ARRIVED_AT_S - 6 * DAY_S)
    make_partitions(now=NOW)
    ingest(old, make_record())
    month_later = NOW + timedelta(days=30)
    dropped = drop_old_partitions(now=month_later, keep_days=32)
    assert "usage_record_20261123" in dropped
    assert UsageRecord.objects.count() == 1
    assert sum(row.request_count for row in UsageByModel.objects.all()) == 2
    assert drop_old_partitions(now=month_later, keep_days=32) == []
    assert ingest(old, now=month_later) == (1, 0), "its number is known, so it is set aside and not counted again"
    assert sum(row.request_count for row in UsageSlot.objects.all()) == 2


def test_nothing_is_dropped_where_everything_is_kept():
    make_partitions(now=NOW)
    assert drop_old_partitions(now=NOW + timedelta(days=3000), keep_days=0) == []


def test_every_rollup_counts_every_record():
    ingest(*(make_record(end_user=name, workflow_id=name) for name in ("", "a", "b")))
    for rollup in ROLLUPS:
        assert sum(row.request_count for row in rollup.objects.all()) == 3
    assert sorted(UsageByEndUser.objects.values_list("end_user", flat=True)) == ["", "a", "b"]


def test_a_crash_in_the_middle_of_a_batch_leaves_nothing_behind(monkeypatch):
    records = [make_record() for _ in range(3)]

    def dies(*_, **__):
        raise RuntimeError("the process dies")

    keep = outcome_services.keep_outcomes
    monkeypatch.setattr("apps.usage.services.ingest.keep_outcomes", dies)
    with pytest.raises(RuntimeError):
        ingest(*records)
    monkeypatch.setattr("apps.usage.services.ingest.keep_outcomes", keep)
    assert (UsageRecord.objects.count(), UsageSlot.objects.count()) == (0, 0)
    assert ingest(*records) == (3, 0)


# --- outcomes ---------------------------------------------------------------------------------------------------------

TENANT = str(uuid4())


def report(at_s=0, *, is_success=True, value=None, **task):
    told = outcomes.TaskOutcome(is_success=is_success, value_pico_usd=value, **(task or {"request_id": "r1"}))
    return make_record(tenant_id=TENANT, arrived_at=ARRIVED_AT_S + at_s, path="/v1/outcomes", task_outcome=told)


def test_an_outcome_is_kept_beside_the_usage_and_is_none_itself():
    assert ingest(report(value=2 * 10**12), make_record()) == (2, 0)
    assert UsageRecord.objects.count() == 1
    assert TaskOutcome.objects.get().value_usd == 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("in_one_batch", [True, False])
def test_the_newest_report_of_a_task_holds_in_whatever_order_reports_come(order, in_one_batch):
    reports = [report(0, is_success=False), report(10, is_success=True)]
    batches = [[reports[place] for place in order]] if in_one_batch else [[reports[place]] for place in order]
    for batch in batches:
        ingest(*batch)
    assert TaskOutcome.objects.get().is_success is True


def test_a_report_sent_again_is_a_duplicate():
    told = report()
    assert (ingest(told), ingest(told)) == ((1, 0), (0, 1))


def test_reports_of_two_tenants_about_one_id_are_two():
    other = changed(report(), tenant_id=str(uuid4()), sequence=make_record().sequence)
    ingest(report(), other)
    assert TaskOutcome.objects.count() == 2
