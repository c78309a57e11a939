"""Rows of usage_record out of records: one statement stores a batch, leaves out what is there, and adds to the sums."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.db import connection

from apps.usage.policies.checking import as_uuid
from apps.usage.policies.pricing import PICO_PER_USD, Book, Rating, rate
from apps.usage.services.rollup_sql import OF_RECORDS, added_to_rollups
from workers.contracts.usage import UsageRecord

_COLUMNS = {
    "record_id": "uuid",
    "arrived_at": "timestamptz",
    "received_at": "timestamptz",
    "gateway_id": "text",
    "boot_id": "text",
    "sequence": "bigint",
    "request_id": "text",
    "tenant_id": "uuid",
    "key_id": "uuid",
    "user_id": "uuid",
    "end_user": "text",
    "workflow_id": "text",
    "path": "text",
    "public_model": "text",
    "version_id": "uuid",
    "deployment_id": "uuid",
    "replica_id": "uuid",
    "node_id": "uuid",
    "service_class": "text",
    "is_stream": "boolean",
    "status": "smallint",
    "outcome": "text",
    "usage_source": "text",
    "input_tokens": "bigint",
    "cached_input_tokens": "bigint",
    "output_tokens": "bigint",
    "reasoning_tokens": "bigint",
    "wasted_tokens": "bigint",
    "queue_ms": "double precision",
    "ttft_ms": "double precision",
    "total_ms": "double precision",
    "engine_ms": "double precision",
    "cost_usd": "numeric",
    "list_usd": "numeric",
    "gateway_cost_usd": "numeric",
    "wasted_usd": "numeric",
    "is_unpriced": "boolean",
    "is_cost_mismatch": "boolean",
    "attempts": "smallint",
    "error_code": "text",
    "tags": "jsonb",
}
OPTIONAL_IDS = ("tenant_id", "key_id", "user_id", "version_id", "deployment_id", "node_id")
TEXT_LIMITS = {
    "gateway_id": 64,
    "boot_id": 64,
    "request_id": 128,
    "end_user": 256,
    "workflow_id": 128,
    "path": 100,
    "public_model": 200,
    "service_class": 63,
    "error_code": 100,
}
_MAX_TAG_NAME, _MAX_TAG_VALUE = 64, 512
_MADE_HERE = {
    "arrived_at", "received_at", "replica_id", "cost_usd", "list_usd", "gateway_cost_usd", "wasted_usd", "is_unpriced",
    "is_cost_mismatch", "tags",
}  # fmt: skip
_AS_THEY_CAME = [name for name in _COLUMNS if name not in {*_MADE_HERE, *OPTIONAL_IDS, *TEXT_LIMITS}]
_NAMES = ", ".join(_COLUMNS)
_TYPED = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())

_STORE = f"""
WITH stored AS (
    INSERT INTO usage_record ({_NAMES})
    SELECT {_NAMES} FROM jsonb_to_recordset(%s::jsonb) AS incoming({_TYPED}) ORDER BY record_id
    ON CONFLICT DO NOTHING
    RETURNING *
), {added_to_rollups("stored", OF_RECORDS)}
SELECT record_id::text FROM stored
"""  # noqa: S608 - made of constants


def store_rows(records: Sequence[UsageRecord], *, book: Book, now: datetime) -> set[str]:
    """The ids of those that were stored; a record whose id is there already is left out."""
    if not records:
        return set()
    rows = [_row_of(record, book, now.isoformat()) for record in records]
    with connection.cursor() as cursor:
        cursor.execute(_STORE, [msgspec.json.encode(rows).decode()])
        return {record_id for (record_id,) in cursor.fetchall()}


def rate_record(record: UsageRecord, book: Book) -> Rating:
    version_id = as_uuid(record.version_id)
    if version_id is None:
        return Rating(record.cost_pico_usd, record.cost_pico_usd)
    arrived_at = datetime.fromtimestamp(record.arrived_at, UTC)
    price = book.price(version_id, as_uuid(record.tenant_id), record.service_class, arrived_at)
    return rate(record, price, record.cost_pico_usd)


def _row_of(record: UsageRecord, book: Book, received_at: str) -> dict[str, Any]:
    rating = rate_record(record, book)
    return {name: getattr(record, name) for name in _AS_THEY_CAME} | {
        "arrived_at": datetime.fromtimestamp(record.arrived_at, UTC).isoformat(),
        "received_at": received_at,
        "replica_id": record.endpoint_id or None,
        "cost_usd": _usd(rating.cost_pico_usd),
        "list_usd": _usd(rating.list_pico_usd),
        "gateway_cost_usd": _usd(record.cost_pico_usd),
        "wasted_usd": _usd(rating.wasted_pico_usd),
        "is_unpriced": rating.is_unpriced,
        "is_cost_mismatch": rating.is_mismatch,
        "tags": {clean(name, _MAX_TAG_NAME): clean(value, _MAX_TAG_VALUE) for name, value in record.tags.items()},
        **{name: getattr(record, name) or None for name in OPTIONAL_IDS},
        **{name: clean(getattr(record, name), limit) for name, limit in TEXT_LIMITS.items()},
    }


def _usd(pico_usd: int) -> str:
    """In full, which a Decimal would take four times as long for."""
    return f"{pico_usd // PICO_PER_USD}.{pico_usd % PICO_PER_USD:012d}"


def clean(text: str, limit: int) -> str:
    """Postgres stores no NUL, and the client chose some of these texts."""
    return text.replace("\x00", "")[:limit]
