"""Whatever happens in whatever order, and wherever a process dies: the sums are those of the records, each priced once.

Records come, come again, come late and die on the way; prices are made, corrected and applied; in any time zone.
"""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import uuid4
from zoneinfo import ZoneInfo, available_timezones

import pytest
from django.db import connection, transaction
from django.db.models import Count, Q, Sum
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from apps.common.actors import SYSTEM
from apps.tenants.models import Tenant
from apps.usage.models import Rerating, TaskUsage, UsageRecord, UsageSource
from apps.usage.models import TaskOutcome as StoredOutcome
from apps.usage.selectors.focus import focus_table
from apps.usage.selectors.health import get_record_health
from apps.usage.selectors.reports import report_usage, scope_for, sum_usage
from apps.usage.services import rating, rerating
from apps.usage.services.ingest import Incoming, ingest_batches
from apps.usage.services.prices import set_discount, set_price
from apps.usage.services.rollup_sql import ROLLUPS, SUMS
from tests.factories.domain import NOW, make_tenant, make_version
from tests.factories.usage import ARRIVED_AT_S, make_record
from workers.contracts.outcomes import TaskOutcome
from workers.contracts.snapshot import Price

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

ZONES = sorted(available_timezones())
DAY_S = 86_400
BATCH = 3
NAMES = [name for name in SUMS if name not in {"request_count", "unpriced_count"}]


class ProcessDiedError(Exception):
    pass


class _Money(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.block = transaction.atomic()
        self.block.__enter__()
        self.tenants = [str(make_tenant(name).pk) for name in ("red", "blue")]
        self.versions = [make_version("one"), make_version("two")]
        self.node, self.boot, self.number = uuid4(), str(uuid4()), 0
        self.sent, self.prices, self.reports = [], 0, set()

    def teardown(self):
        if hasattr(self, "block"):
            transaction.set_rollback(True)
            self.block.__exit__(None, None, None)

    @contextmanager
    def dying(self, after):
        """The process dies at its so many-th statement, if it comes to that."""
        left = iter(range(after))

        def execute(run, *arguments):
            if next(left, None) is None:
                raise ProcessDiedError
            return run(*arguments)

        try:
            with transaction.atomic(), connection.execute_wrapper(execute):
                yield
        except ProcessDiedError:
            pass

    def some_records(self, count, data):
        made = []
        for _ in range(count):
            self.number += 1
            tokens = data.draw(st.integers(0, 10**6))
            made.append(
                make_record(
                    gateway_id="g", boot_id=self.boot, sequence=self.number,
                    arrived_at=ARRIVED_AT_S - data.draw(st.integers(0, 6 * DAY_S * 10**6)) / 1e6,
                    tenant_id=data.draw(st.sampled_from([*self.tenants, ""])),
                    version_id=data.draw(st.sampled_from([*(str(each.pk) for each in self.versions), ""])),
                    end_user=data.draw(st.sampled_from(["", "ann", 'q"u\\o,t\te'])),
                    workflow_id=data.draw(st.sampled_from(["", "w", "v"])),
                    request_id=data.draw(st.sampled_from(["r1", "r2", "r3"])),
                    service_class=data.draw(st.sampled_from(["gold", "batch"])),
                    usage_source=data.draw(st.sampled_from(["engine", "none"])),
                    outcome=data.draw(st.sampled_from(["completed", "failed", "client_left"])),
                    input_tokens=tokens, cached_input_tokens=data.draw(st.integers(0, tokens)),
                    output_tokens=data.draw(st.integers(0, 10**6)), wasted_tokens=data.draw(st.integers(0, 9)),
                    cost_pico_usd=data.draw(st.sampled_from([0, 5, 10**12])),
                )
            )  # fmt: skip
        return made

    @rule(data=st.data(), count=st.integers(1, 6), dies_after=st.integers(0, 12))
    def records_come(self, data, count, dies_after):
        records = self.some_records(count, data)
        self.sent.append(records)
        half = [Incoming(node_id=self.node, records=part) for part in (records[::2], records[1::2]) if part]
        with self.dying(dies_after):
            ingest_batches(half, now=NOW)

    @rule(
        task=st.sampled_from([{"request_id": "r1"}, {"request_id": "r2"}, {"workflow_id": "w"}, {"workflow_id": "v"}]),
        place=st.integers(0, 1), is_success=st.booleans(), dies_after=st.integers(0, 12),
        data=st.data(),
    )  # fmt: skip
    def an_outcome_is_reported_before_after_or_with_records(self, task, place, is_success, dies_after, data):
        records = self.some_records(data.draw(st.integers(0, 2)), data)
        self.number += 1
        told = make_record(
            gateway_id="g", boot_id=self.boot, sequence=self.number,
            arrived_at=ARRIVED_AT_S - data.draw(st.integers(0, DAY_S)),
            tenant_id=self.tenants[place], task_outcome=TaskOutcome(is_success=is_success, **task),
        )  # fmt: skip
        self.sent.append([*records, told])
        self.reports.add(self.number)
        with self.dying(dies_after):
            ingest_batches([Incoming(node_id=self.node, records=self.sent[-1])], now=NOW)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def the_agent_sends_again_for_want_of_an_answer(self, data):
        records = data.draw(st.sampled_from(self.sent))
        (counts,) = ingest_batches([Incoming(node_id=self.node, records=records)], now=NOW)
        assert counts.stored + counts.duplicate == len(records)

    @rule(
        place=st.integers(0, 1), age_h=st.integers(-1, 200), pico=st.integers(0, 10**6), request_pico=st.integers(0, 9),
        batch_bp=st.integers(0, 10_000),
    )  # fmt: skip
    def a_price_is_made(self, place, age_h, pico, request_pico, batch_bp):
        self.prices += 1
        price = Price(
            input_pico_usd=pico,
            cached_input_pico_usd=pico // 3,
            output_pico_usd=2 * pico,
            request_pico_usd=request_pico,
        )
        since = NOW - timedelta(hours=age_h, microseconds=self.prices)
        set_price(
            actor=SYSTEM, version=self.versions[place], price=price, effective_from=since, batch_discount_bp=batch_bp,
            now=NOW,
        )  # fmt: skip

    @rule(place=st.integers(0, 1), discount_bp=st.integers(0, 10_000), age_h=st.integers(0, 200))
    def a_discount_is_made(self, place, discount_bp, age_h):
        self.prices += 1
        since = NOW - timedelta(hours=age_h, microseconds=self.prices)
        tenant = Tenant.objects.get(pk=self.tenants[place])
        set_discount(actor=SYSTEM, tenant=tenant, model=None, discount_bp=discount_bp, effective_from=since, now=NOW)

    @rule(dies_after=st.integers(0, 20))
    def what_waits_for_a_price_is_priced(self, dies_after):
        with self.dying(dies_after):
            rating.price_unpriced()

    @rule(age_h=st.integers(1, 200), dies_after=st.integers(0, 40))
    def a_stretch_is_priced_anew(self, age_h, dies_after):
        now = NOW + timedelta(seconds=1)
        row = rerating.start_rerating(
            actor=SYSTEM, start=NOW - timedelta(hours=age_h), end=NOW + timedelta(days=2), reason="wrong", now=now
        )
        rerating.run_reratings(now=now)
        row.refresh_from_db()
        before = sum_usage(scope=self.everything()).cost_usd
        rerating.apply_rerating(actor=SYSTEM, rerating=row, now=now)
        with self.dying(dies_after):
            rerating.run_reratings(now=now)
        rerating.run_reratings(now=now)
        row = Rerating.objects.get(pk=row.pk)
        change = sum(line["after_pico_usd"] - line["before_pico_usd"] for line in row.preview.values())
        assert row.result == row.preview
        assert sum_usage(scope=self.everything()).cost_usd - before == Decimal(change).scaleb(-12)

    def everything(self):
        return scope_for(actor=SYSTEM, start=NOW - timedelta(days=9), end=NOW + timedelta(days=9))

    @invariant()
    def every_sum_is_that_of_the_records(self):
        if not hasattr(self, "block"):
            return
        of_records = UsageRecord.objects.aggregate(
            request_count=Count("record_id"), unpriced_count=Count("record_id", filter=Q(is_unpriced=True)),
            **{name: Sum(name, default=0) for name in NAMES},
        )  # fmt: skip
        for rollup in ROLLUPS:
            assert rollup.objects.aggregate(**{name: Sum(name, default=0) for name in SUMS}) == of_records

    @invariant()
    def what_tasks_cost_is_what_the_records_of_their_requests_cost(self):
        if not hasattr(self, "block"):
            return
        of_tasks = dict(TaskUsage.objects.values_list("task_id").annotate(Sum("cost_usd")))
        for task in StoredOutcome.objects.all():
            ids = {"request_id": task.request_id} if task.request_id else {"workflow_id": task.workflow_id}
            records = UsageRecord.objects.filter(tenant_id=task.tenant_id, **ids)
            assert of_tasks.pop(task.pk, 0) == records.aggregate(cost=Sum("cost_usd", default=0))["cost"]
        assert of_tasks == {}

    @invariant()
    def each_number_is_there_once_or_missing(self):
        for source in UsageSource.objects.all() if hasattr(self, "block") else ():
            numbers = list(UsageRecord.objects.values_list("sequence", flat=True))
            assert len(numbers) == len(set(numbers))
            held = {number for part in source.received for number in range(part.lower, part.upper)}
            assert set(numbers) == held - self.reports
            (health,) = get_record_health(since=NOW - timedelta(days=1)).sources
            assert health.missing_count == max(held, default=0) - len(held)

    @rule(
        zone=st.sampled_from(ZONES),
        time=st.sampled_from(["day", "hour", "month"]),
        group=st.sampled_from(["tenant", "key", "version"]),
    )
    def parts_are_the_whole_in_any_zone(self, zone, time, group):
        scope = self.everything()
        whole = sum_usage(scope=scope)
        rows = report_usage(scope=scope, group_by=[time, group], zone=ZoneInfo(zone))
        for name in ("request_count", "input_tokens", "output_tokens", "cost_usd", "list_usd"):
            assert sum(getattr(row, name) for row in rows) == getattr(whole, name)
        table = focus_table(scope=scope)
        billed = table.names.index("BilledCost")
        assert sum(row[billed] for row in table.rows()) == whole.cost_usd

    @rule(start_s=st.integers(0, 7 * DAY_S), length_s=st.integers(1, 7 * DAY_S))
    def a_range_that_cuts_a_slot_is_the_sum_of_its_records(self, start_s, length_s):
        start = datetime.fromtimestamp(ARRIVED_AT_S - start_s, UTC)
        end = start + timedelta(seconds=length_s)
        records = UsageRecord.objects.filter(arrived_at__gte=start, arrived_at__lt=end)
        totals = sum_usage(scope=scope_for(actor=SYSTEM, start=start, end=end))
        assert totals.request_count == records.count()
        assert totals.cost_usd == records.aggregate(cost=Sum("cost_usd", default=Decimal()))["cost"]


def test_records_sums_and_prices_agree_after_anything(db, valkey, monkeypatch):
    monkeypatch.setattr(rating, "BATCH_RECORDS", BATCH)
    monkeypatch.setattr(rerating, "BATCH_RECORDS", BATCH)
    run_state_machine_as_test(
        _Money,
        settings=settings(
            max_examples=12, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
