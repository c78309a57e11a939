"""Pricing stored records anew, a batch in a transaction; the rollups change by the same amounts in one statement."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Q, QuerySet

from apps.common.long_work import patient
from apps.usage.models import UsageRecord
from apps.usage.policies.pricing import Rating, Tariffs, pico_from_usd, rate
from apps.usage.selectors.prices import load_book
from apps.usage.services.outcomes import hold_outcomes
from apps.usage.services.rollup_sql import OF_CHANGES, added_to_rollups
from apps.usage.services.staging import Staging, csv_line
from apps.usage.services.task_sql import added_to_tasks

BATCH_RECORDS = 5000
Place = tuple[datetime, UUID]

_STAGED = {
    "record_id": "uuid",
    "arrived_at": "timestamptz",
    "cost_pico_usd": "numeric",
    "list_pico_usd": "numeric",
    "wasted_pico_usd": "numeric",
    "is_unpriced": "boolean",
    "is_cost_mismatch": "boolean",
    "price_line_id": "uuid",
    "charged_e8": "integer",
}
_rated = Staging("usage_rated", _STAGED)
# Each sum loses the record as it was and gets it as it is; where both fall into one row, the difference.
_CHANGE = f"""
WITH changed AS (
    UPDATE usage_record AS record SET
        cost_usd = rated.cost_pico_usd * 0.000000000001, list_usd = rated.list_pico_usd * 0.000000000001,
        wasted_usd = rated.wasted_pico_usd * 0.000000000001, is_unpriced = rated.is_unpriced,
        is_cost_mismatch = rated.is_cost_mismatch, price_line_id = rated.price_line_id,
        charged_e8 = rated.charged_e8, rerating = %s
    FROM usage_rated AS rated WHERE record.record_id = rated.record_id AND record.arrived_at = rated.arrived_at
        AND record.arrived_at BETWEEN %s AND %s
    RETURNING old AS before, new AS after
), moved AS (
    SELECT -1 AS sign, (before).* FROM changed UNION ALL SELECT 1, (after).* FROM changed
), {added_to_rollups("moved", OF_CHANGES)}, {added_to_tasks("moved", "used.sign * used.cost_usd")}
SELECT count(*) FROM changed
"""  # noqa: S608 - made of constants


class StoredRecord(NamedTuple):
    """What of a row its price depends on, and what it costs now: millions of these are read in a row."""

    record_id: UUID
    arrived_at: datetime
    tenant_id: UUID | None
    version_id: UUID | None
    service_class: str
    usage_source: str
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    wasted_tokens: int
    gateway_cost_usd: Decimal
    cost_usd: Decimal
    list_usd: Decimal
    wasted_usd: Decimal
    is_unpriced: bool
    is_cost_mismatch: bool
    price_line_id: UUID | None
    charged_e8: int


class Rated(NamedTuple):
    """A stored record and what the book makes of it."""

    record: StoredRecord
    rating: Rating

    @property
    def before_pico_usd(self) -> int:
        return pico_from_usd(self.record.cost_usd)

    @property
    def is_changed(self) -> bool:
        return _as_it_is(self.record) != self.rating


def rate_stored(record: StoredRecord, tariffs: Tariffs) -> Rated:
    """A record without a version reached none and keeps what it cost; so does one without a price in the book."""
    tariff = tariffs.of(
        str(record.version_id or ""), str(record.tenant_id or ""), record.service_class, record.arrived_at
    )
    if tariff is None:
        return Rated(record, _as_it_is(record))
    rating = rate(record, tariff, pico_from_usd(record.gateway_cost_usd))
    # The gateway counted by the book as it was when the record came, or had no price: a book changed since says
    # nothing of it.
    return Rated(record, rating._replace(is_mismatch=record.is_cost_mismatch))


def _as_it_is(record: StoredRecord) -> Rating:
    return Rating(
        cost_pico_usd=pico_from_usd(record.cost_usd),
        list_pico_usd=pico_from_usd(record.list_usd),
        wasted_pico_usd=pico_from_usd(record.wasted_usd),
        is_unpriced=record.is_unpriced,
        is_mismatch=record.is_cost_mismatch,
        line_id=record.price_line_id,
        charged_e8=record.charged_e8,
    )


def write_ratings(rated: Sequence[Rated], *, rerating: int) -> None:
    """Of records that this transaction has locked, in order of arrival."""
    changed = [each for each in rated if each.is_changed]
    if changed:
        hold_outcomes()
        _rated.fill(map(_line_of, changed))
        with connection.cursor() as cursor:
            cursor.execute(_CHANGE, [rerating, changed[0].record.arrived_at, changed[-1].record.arrived_at])


def _line_of(rated: Rated) -> str:
    return csv_line((rated.record.record_id, rated.record.arrived_at, *rated.rating))


@patient
def price_unpriced() -> int:
    """Records that came when no price was in force, once the book has one for their time. How many it priced."""
    tariffs, priced, after = Tariffs(load_book()), 0, None
    while True:
        with transaction.atomic():
            records = lock_batch(UsageRecord.objects.filter(is_unpriced=True), after)
            rated = [rate_stored(record, tariffs) for record in records]
            write_ratings(rated, rerating=0)
        priced += sum(not each.rating.is_unpriced for each in rated)
        if len(records) < BATCH_RECORDS:
            return priced
        after = (records[-1].arrived_at, records[-1].record_id)


def lock_batch(records: QuerySet[UsageRecord], after: Place | None) -> list[StoredRecord]:
    """The next records in order of arrival, locked until the transaction ends."""
    return read_batch(records.select_for_update(), after)


def read_batch(records: QuerySet[UsageRecord], after: Place | None) -> list[StoredRecord]:
    """The next records in order of arrival."""
    if after is not None:
        at, record_id = after
        records = records.filter(Q(arrived_at__gt=at) | Q(record_id__gt=record_id), arrived_at__gte=at)
    rows = records.order_by("arrived_at", "record_id").values_list(*StoredRecord._fields)
    return list(map(StoredRecord._make, rows[:BATCH_RECORDS]))
