"""Rows of usage_record out of records: one statement stores a batch, leaves out what is there, and adds to the sums."""

from collections.abc import Sequence
from datetime import UTC, datetime
from operator import attrgetter

import msgspec
from django.db import connection

from apps.usage.policies.checking import normal_id, shared_id
from apps.usage.policies.pricing import Rating, Tariffs, rate
from apps.usage.services.rollup_sql import OF_RECORDS, READ, added_to_rollups
from apps.usage.services.staging import Staging, clean, csv_line, quoted
from apps.usage.services.task_sql import added_to_tasks
from workers.contracts.usage import UsageRecord

_AS_THEY_CAME = {
    "sequence": "bigint",
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
    "attempts": "smallint",
}
_IDS = ("tenant_id", "key_id", "user_id", "version_id", "deployment_id", "endpoint_id", "node_id")
_TEXT_LIMITS = {
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
_MADE_HERE = {
    "record_id": "uuid",
    "arrived_at": "timestamptz",
    "received_at": "timestamptz",
    "cost_pico_usd": "numeric",
    "list_pico_usd": "numeric",
    "gateway_pico_usd": "numeric",
    "wasted_pico_usd": "numeric",
    "is_unpriced": "boolean",
    "is_cost_mismatch": "boolean",
    "price_line_id": "uuid",
    "charged_e8": "integer",
    "tags": "jsonb",
}
_STAGED = {
    **_AS_THEY_CAME,
    **dict.fromkeys(_IDS, "uuid"),
    **dict.fromkeys(_TEXT_LIMITS, "text"),
    **_MADE_HERE,
}
_RENAMED = {
    "endpoint_id": "replica_id",
    "cost_pico_usd": "cost_usd",
    "list_pico_usd": "list_usd",
    "gateway_pico_usd": "gateway_cost_usd",
    "wasted_pico_usd": "wasted_usd",
}
_MEASURED = ("queue_ms", "ttft_ms", "engine_ms")
_MAX_TAG_NAME, _MAX_TAG_VALUE = 64, 512
_NO_TAGS = '"{}"'
_incoming = Staging("usage_incoming", _STAGED)
_values_of = attrgetter(*_AS_THEY_CAME)
_ids_of = attrgetter(*_IDS)
_texts_of = attrgetter(*_TEXT_LIMITS)
_limits = tuple(_TEXT_LIMITS.values())


def _taken(name: str) -> str:
    """A part of the time that cannot be is unknown: it costs nobody their record."""
    if name in _MEASURED:
        return f"CASE WHEN {name} >= 0 AND {name} < 'Infinity' THEN {name} END"
    return f"{name} * 0.000000000001" if name.endswith("_pico_usd") else name


_STORE = f"""
WITH stored AS (
    INSERT INTO usage_record ({", ".join(_RENAMED.get(name, name) for name in _STAGED)})
    SELECT {", ".join(map(_taken, _STAGED))}
    FROM usage_incoming ORDER BY record_id
    ON CONFLICT DO NOTHING
    RETURNING record_id, {", ".join(READ)}
), {added_to_rollups("stored", OF_RECORDS)}, {added_to_tasks("stored", "used.cost_usd")}
SELECT record_id::text FROM usage_incoming WHERE record_id NOT IN (SELECT record_id FROM stored)
"""  # noqa: S608 - made of constants


def store_rows(records: Sequence[UsageRecord], *, tariffs: Tariffs, now: datetime) -> set[str]:
    """The ids of those that were left out, since their id is there already."""
    if not records:
        return set()
    received_at = now.isoformat()
    _incoming.fill(_line_of(record, tariffs, received_at) for record in records)
    with connection.cursor() as cursor:
        cursor.execute(_STORE)
        return {record_id for (record_id,) in cursor.fetchall()}


def _line_of(record: UsageRecord, tariffs: Tariffs, received_at: str) -> str:
    arrived_at = datetime.fromtimestamp(record.arrived_at, UTC)
    rating = rate_record(record, tariffs, arrived_at)
    return csv_line(
        (
            *_values_of(record),
            *[shared_id(text) if text else None for text in _ids_of(record)],
            quoted(_texts_of(record), _limits),
            normal_id(record.record_id),
            arrived_at,
            received_at,
            rating.cost_pico_usd,
            rating.list_pico_usd,
            record.cost_pico_usd,
            rating.wasted_pico_usd,
            rating.is_unpriced,
            rating.is_mismatch,
            rating.line_id,
            rating.charged_e8,
            _tags_of(record),
        )
    )


def rate_record(record: UsageRecord, tariffs: Tariffs, arrived_at: datetime) -> Rating:
    if not record.version_id:
        return Rating(record.cost_pico_usd, record.cost_pico_usd)
    tariff = tariffs.of(record.version_id, record.tenant_id, record.service_class, arrived_at)
    return rate(record, tariff, record.cost_pico_usd)


def _tags_of(record: UsageRecord) -> str:
    if not record.tags:
        return _NO_TAGS
    tags = {clean(name, _MAX_TAG_NAME): clean(value, _MAX_TAG_VALUE) for name, value in record.tags.items()}
    text = msgspec.json.encode(tags).decode()
    return quoted([text], [len(text)])
