"""Usage records from the nodes: each stored once, whatever is sent again, and nothing of what was sent is lost.

A record is known by its source's number. What comes again under the same number and says the same is a duplicate; what
says something else, cannot be a row or cannot be read at all goes into quarantine, and the rest of the batch is stored.
Of a request that one gateway passed to another both may have written the record, under one id: the first one counts.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import transaction

from apps.usage.models import UsageRecord as StoredRecord
from apps.usage.policies.checking import BIGGEST_BIGINT, EARLY_DAYS, as_uuid, normal_id, oldest_kept, problem_of
from apps.usage.policies.pricing import pico_from_usd
from apps.usage.policies.sequences import Ranges, holds, ranges_of
from apps.usage.selectors.prices import get_tariffs
from apps.usage.services.outcomes import await_records, hold_outcomes, keep_outcomes
from apps.usage.services.quarantine import put_aside
from apps.usage.services.sources import Source, lock_sources, note_received
from apps.usage.services.staging import clean
from apps.usage.services.storing import store_rows
from workers.contracts.usage import UsageRecord


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """What a node sent at once."""

    node_id: UUID
    records: Sequence[UsageRecord]
    undecodable: Sequence[bytes] = ()


@dataclass(frozen=True)
class IngestCounts:
    """Together, the records that were given; a quarantined one counts as stored."""

    stored: int
    duplicate: int


@dataclass
class _Batch:
    """`fresh` have numbers that never came; `repeated` have come before, in this batch or in another one."""

    incoming: Incoming
    now: datetime
    fresh: list[UsageRecord] = field(default_factory=list)
    repeated: list[UsageRecord] = field(default_factory=list)
    put_aside: int = 0

    def quarantine(self, record: UsageRecord, reason: str) -> None:
        self.quarantine_line(msgspec.json.encode(record), reason)

    def quarantine_line(self, line: bytes, reason: str) -> None:
        self.put_aside += put_aside(line, reason, node_id=self.incoming.node_id, now=self.now)

    @property
    def usage(self) -> list[UsageRecord]:
        return [record for record in self.fresh if record.task_outcome is None]


@dataclass(frozen=True)
class _Window:
    """Arrivals that are kept, in Unix seconds."""

    kept_from_s: float | None
    until_s: float


@transaction.atomic
def ingest_batches(incoming: Sequence[Incoming], *, now: datetime) -> list[IngestCounts]:
    """Together, since a commit and the rows of the sums are shared by all that come with it."""
    batches = [_Batch(each, now) for each in incoming]
    has_outcomes = any(record.task_outcome is not None for each in incoming for record in each.records)
    (await_records if has_outcomes else hold_outcomes)()
    _sort_out(batches, now)
    usage = {normal_id(record.record_id): record for batch in reversed(batches) for record in reversed(batch.usage)}
    left_out = store_rows(list(usage.values()), tariffs=get_tariffs(), now=now)
    stored = {id(record) for record_id, record in usage.items() if record_id not in left_out}
    keep_outcomes([record for batch in batches for record in batch.fresh if record.task_outcome is not None], now=now)
    return [_counts_of(batch, stored) for batch in batches]


def _counts_of(batch: _Batch, stored: set[int]) -> IngestCounts:
    clashing = [record for record in batch.usage if id(record) not in stored]
    _judge([*clashing, *batch.repeated], batch)
    for line in batch.incoming.undecodable:
        batch.quarantine_line(line, "is not a usage record")
    given = len(batch.incoming.records) + len(batch.incoming.undecodable)
    stored_count = len(batch.fresh) - len(clashing) + batch.put_aside
    return IngestCounts(stored=stored_count, duplicate=given - stored_count)


def _sort_out(batches: Sequence[_Batch], now: datetime) -> None:
    by_source: dict[Source, list[tuple[_Batch, UsageRecord]]] = defaultdict(list)
    nodes: dict[Source, UUID] = {}
    for batch in batches:
        for record in batch.incoming.records:
            source = clean(record.gateway_id, 64), clean(record.boot_id, 64)
            by_source[source].append((batch, record))
            nodes.setdefault(source, batch.incoming.node_id)
    window = _window_at(now)
    received = lock_sources(nodes, now=now)
    note_received({source: _take(by_source[source], received[source], window) for source in received})


def _window_at(now: datetime) -> _Window:
    kept_from = oldest_kept(now, settings.USAGE_KEEP_DAYS)
    until = now + timedelta(days=EARLY_DAYS)
    return _Window(kept_from.timestamp() if kept_from else None, until.timestamp())


def _take(sent: Sequence[tuple[_Batch, UsageRecord]], received: Ranges, window: _Window) -> Ranges:
    """The numbers that came now. A number that came before makes a record a repeated one, however late it is."""
    numbers: set[int] = set()
    for batch, record in sent:
        is_repeated = record.sequence in numbers or holds(received, record.sequence)
        problem = (
            problem_of(record)
            if is_repeated
            else problem_of(record, kept_from_s=window.kept_from_s, until_s=window.until_s)
        )
        if problem is not None:
            batch.quarantine(record, problem)
        else:
            (batch.repeated if is_repeated else batch.fresh).append(record)
        if 0 <= record.sequence < BIGGEST_BIGINT:
            numbers.add(record.sequence)
    return ranges_of(numbers)


def _judge(repeated: Sequence[UsageRecord], batch: _Batch) -> None:
    """A record that is stored already says the same as the stored one, or it contradicts it."""
    usage = [record for record in repeated if record.task_outcome is None]
    if not usage:
        return
    stored = _stored_like(usage)
    for record in usage:
        row = stored.get(normal_id(record.record_id) or "")
        if row is None:
            batch.quarantine(record, f"number {record.sequence} of this gateway belongs to another record")
        elif _is_of_both(row, record):
            continue
        elif _said_by(row) != _said_in(record):
            batch.quarantine(record, "contradicts the record that is stored under its id")


def _is_of_both(row: StoredRecord, record: UsageRecord) -> bool:
    """The gateway that passed it on and the one that answered, of which one had died: neither knows of the other's."""
    sources_differ = (row.gateway_id, row.boot_id) != (clean(record.gateway_id, 64), clean(record.boot_id, 64))
    whose = str(row.tenant_id or ""), str(row.key_id or ""), row.request_id
    return sources_differ and whose == (*_ids_in(record)[:2], clean(record.request_id, 128))


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
    arrived_at = datetime.fromtimestamp(record.arrived_at, UTC)
    return record.sequence, arrived_at, record.outcome, record.cost_pico_usd, *_ids_in(record), *tokens


def _ids_in(record: UsageRecord) -> list[str]:
    return [str(as_uuid(text) or "") for text in (record.tenant_id, record.key_id, record.version_id)]
