"""Pricing stored records anew, a batch in a transaction; the rollups change by the same amounts in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection, transaction
from django.db.models import Q, QuerySet

from apps.usage.models import UsageRecord
from apps.usage.policies.pricing import Book, Rating, pico_from_usd, rate, usd_from_pico
from apps.usage.selectors.prices import load_book
from apps.usage.services.rollup_sql import OF_CHANGES, added_to_rollups

BATCH_RECORDS = 5000
Place = tuple[datetime, UUID]

_CHANGE = f"""
WITH incoming AS (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS rows(
        record_id uuid, arrived_at timestamptz, cost_usd numeric, list_usd numeric, wasted_usd numeric,
        is_unpriced boolean, is_cost_mismatch boolean, rerating integer,
        cost_change numeric, list_change numeric, wasted_change numeric, unpriced_change integer)
), changed AS (
    UPDATE usage_record AS record SET
        cost_usd = incoming.cost_usd, list_usd = incoming.list_usd, wasted_usd = incoming.wasted_usd,
        is_unpriced = incoming.is_unpriced, is_cost_mismatch = incoming.is_cost_mismatch, rerating = incoming.rerating
    FROM incoming WHERE record.record_id = incoming.record_id AND record.arrived_at = incoming.arrived_at
    RETURNING record.*, incoming.cost_change, incoming.list_change, incoming.wasted_change, incoming.unpriced_change
), {added_to_rollups("changed", OF_CHANGES)}
SELECT count(*) FROM changed
"""  # noqa: S608 - made of constants


@dataclass(frozen=True)
class Rated:
    """A stored record and what the book makes of it."""

    record: UsageRecord
    rating: Rating

    @property
    def before_pico_usd(self) -> int:
        return pico_from_usd(self.record.cost_usd)

    @property
    def is_changed(self) -> bool:
        return _as_it_is(self.record) != self.rating


def rate_stored(record: UsageRecord, book: Book) -> Rated:
    """A record without a version reached none and keeps what it cost; so does one without a price in the book."""
    if record.version_id is None:
        return Rated(record, _as_it_is(record))
    price = book.price(record.version_id, record.tenant_id, record.service_class, record.arrived_at)
    if price is None:
        return Rated(record, _as_it_is(record))
    return Rated(record, rate(record, price, pico_from_usd(record.gateway_cost_usd)))


def _as_it_is(record: UsageRecord) -> Rating:
    return Rating(
        cost_pico_usd=pico_from_usd(record.cost_usd),
        list_pico_usd=pico_from_usd(record.list_usd),
        wasted_pico_usd=pico_from_usd(record.wasted_usd),
        is_unpriced=record.is_unpriced,
        is_mismatch=record.is_cost_mismatch,
    )


def write_ratings(rated: Sequence[Rated], *, rerating: int) -> None:
    """Of records that this transaction has locked."""
    rows = [_row_of(each, rerating) for each in rated if each.is_changed]
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(_CHANGE, [msgspec.json.encode(rows).decode()])


def _row_of(rated: Rated, rerating: int) -> dict[str, Any]:
    record, rating = rated.record, rated.rating
    return {
        "record_id": str(record.record_id),
        "arrived_at": record.arrived_at.isoformat(),
        "cost_usd": _text(usd_from_pico(rating.cost_pico_usd)),
        "list_usd": _text(usd_from_pico(rating.list_pico_usd)),
        "wasted_usd": _text(usd_from_pico(rating.wasted_pico_usd)),
        "is_unpriced": rating.is_unpriced,
        "is_cost_mismatch": rating.is_mismatch,
        "rerating": rerating,
        "cost_change": _text(usd_from_pico(rating.cost_pico_usd) - record.cost_usd),
        "list_change": _text(usd_from_pico(rating.list_pico_usd) - record.list_usd),
        "wasted_change": _text(usd_from_pico(rating.wasted_pico_usd) - record.wasted_usd),
        "unpriced_change": rating.is_unpriced - record.is_unpriced,
    }


def _text(usd: Decimal) -> str:
    return format(usd, "f")


def price_unpriced() -> int:
    """Records that came when no price was in force, once the book has one for their time. How many it priced."""
    book, priced, after = load_book(), 0, None
    while True:
        with transaction.atomic():
            records = lock_batch(UsageRecord.objects.filter(is_unpriced=True), after)
            rated = [rate_stored(record, book) for record in records]
            write_ratings(rated, rerating=0)
        priced += sum(not each.rating.is_unpriced for each in rated)
        if len(records) < BATCH_RECORDS:
            return priced
        after = (records[-1].arrived_at, records[-1].record_id)


def lock_batch(records: QuerySet[UsageRecord], after: Place | None) -> list[UsageRecord]:
    """The next records in order of arrival, locked until the transaction ends."""
    return list(following(records, after).select_for_update()[:BATCH_RECORDS])


def following(records: QuerySet[UsageRecord], after: Place | None) -> QuerySet[UsageRecord]:
    ordered = records.order_by("arrived_at", "record_id")
    if after is None:
        return ordered
    at, record_id = after
    return ordered.filter(Q(arrived_at__gt=at) | Q(record_id__gt=record_id), arrived_at__gte=at)
