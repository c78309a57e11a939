"""Usage records from the nodes: each stored once, whatever is sent again, and nothing of what was sent is lost.

A record is known by its source's number. What comes again under the same number and says the same is a duplicate; what
says something else, cannot be a row or cannot be read at all goes into quarantine, and the rest of the batch is stored.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import transaction

from apps.usage.models import UsageRecord as StoredRecord
from apps.usage.policies.checking import BIGGEST_BIGINT, EARLY_DAYS, as_uuid, oldest_kept, problem_of
from apps.usage.policies.pricing import pico_from_usd
from apps.usage.policies.sequences import Ranges, holds
from apps.usage.selectors.prices import load_book
from apps.usage.services.outcomes import keep_outcomes
from apps.usage.services.quarantine import put_aside
from apps.usage.services.sources import Source, lock_sources, note_received
from apps.usage.services.storing import clean, store_rows
from workers.contracts.usage import UsageRecord


@dataclass(frozen=True)
class IngestCounts:
    """Together, the records that were given; a quarantined one counts as stored."""

    stored: int
    duplicate: int


@dataclass
class _Batch:
    """`fresh` have numbers that never came; `repeated` have come before, in this batch or in another one."""

    node_id: UUID
    now: datetime
    fresh: list[UsageRecord]
    repeated: list[UsageRecord]
    put_aside: int = 0

    @cached_property
    def kept_from(self) -> datetime | None:
        return oldest_kept(self.now, settings.USAGE_KEEP_DAYS)

    @cached_property
    def until(self) -> datetime:
        return self.now + timedelta(days=EARLY_DAYS)

    def quarantine(self, record: UsageRecord, reason: str) -> None:
        self.put_aside += put_aside(msgspec.json.encode(record), reason, node_id=self.node_id, now=self.now)


@transaction.atomic
def ingest_records(
    *, records: Sequence[UsageRecord], node_id: UUID, now: datetime, undecodable: Sequence[bytes] = ()
) -> IngestCounts:
    batch = _sort_out(records, node_id, now)
    usage = {normal_id(record): record for record in reversed(batch.fresh) if record.task_outcome is None}
    stored_ids = store_rows(list(usage.values()), book=load_book(), now=now)
    told = [record for record in batch.fresh if record.task_outcome is not None]
    keep_outcomes(told, now=now)
    stored_objects = {id(usage[record_id]) for record_id in stored_ids}
    clashing = [record for record in batch.fresh if record.task_outcome is None and id(record) not in stored_objects]
    _judge([*clashing, *batch.repeated], batch)
    for line in undecodable:
        batch.put_aside += put_aside(line, "is not a usage record", node_id=node_id, now=now)
    stored = len(stored_ids) + len(told) + batch.put_aside
    return IngestCounts(stored=stored, duplicate=len(records) + len(undecodable) - stored)


def _sort_out(records: Sequence[UsageRecord], node_id: UUID, now: datetime) -> _Batch:
    batch = _Batch(node_id, now, [], [])
    by_source: dict[Source, list[UsageRecord]] = defaultdict(list)
    for record in records:
        by_source[clean(record.gateway_id, 64), clean(record.boot_id, 64)].append(record)
    received = lock_sources(by_source, node_id=node_id, now=now)
    for source, sent in by_source.items():
        note_received(source, _take(batch, sent, received[source]), now=now)
    return batch


def _take(batch: _Batch, sent: Sequence[UsageRecord], received: Ranges) -> set[int]:
    """The numbers that came now. A number that came before makes a record a repeated one, however late it is."""
    numbers: set[int] = set()
    for record in sent:
        is_repeated = record.sequence in numbers or holds(received, record.sequence)
        problem = (
            problem_of(record) if is_repeated else problem_of(record, kept_from=batch.kept_from, until=batch.until)
        )
        if problem is not None:
            batch.quarantine(record, problem)
        else:
            (batch.repeated if is_repeated else batch.fresh).append(record)
        if 0 <= record.sequence < BIGGEST_BIGINT:
            numbers.add(record.sequence)
    return numbers


def _judge(repeated: Sequence[UsageRecord], batch: _Batch) -> None:
    """A record that is stored already says the same as the stored one, or it contradicts it."""
    usage = [record for record in repeated if record.task_outcome is None]
    if not usage:
        return
    stored = _stored_like(usage)
    for record in usage:
        row = stored.get(normal_id(record))
        if row is None:
            batch.quarantine(record, f"number {record.sequence} of this gateway belongs to another record")
        elif _said_by(row) != _said_in(record):
            batch.quarantine(record, "contradicts the record that is stored under its id")


def _stored_like(records: Sequence[UsageRecord]) -> dict[str, StoredRecord]:
    times = [datetime.fromtimestamp(record.arrived_at, UTC) for record in records]
    rows = StoredRecord.objects.filter(
        record_id__in=[record.record_id for record in records], arrived_at__range=(min(times), max(times))
    )
    return {str(row.record_id): row for row in rows}


def _said_by(row: StoredRecord) -> tuple[object, ...]:
    tokens = (row.input_tokens, row.cached_input_tokens, row.output_tokens, row.reasoning_tokens)
    ids = (str(row.tenant_id or ""), str(row.key_id or ""), str(row.version_id or ""))
    return row.sequence, row.arrived_at, row.outcome, pico_from_usd(row.gateway_cost_usd), *ids, *tokens


def _said_in(record: UsageRecord) -> tuple[object, ...]:
    tokens = (record.input_tokens, record.cached_input_tokens, record.output_tokens, record.reasoning_tokens)
    ids = (str(as_uuid(text) or "") for text in (record.tenant_id, record.key_id, record.version_id))
    arrived_at = datetime.fromtimestamp(record.arrived_at, UTC)
    return record.sequence, arrived_at, record.outcome, record.cost_pico_usd, *ids, *tokens


def normal_id(record: UsageRecord) -> str:
    return str(as_uuid(record.record_id))
