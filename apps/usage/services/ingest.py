"""Storing usage records: exactly once, and the hourly sums in the same statement."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection, transaction

from apps.usage.models import QuarantinedRecord
from apps.usage.policies import DatedPrice, cost_pico_usd, price_at, problem_of, usd_from_pico
from apps.usage.selectors.prices import list_dated_prices
from workers.contracts.usage import UsageRecord

_COLUMNS = {
    "record_id": "uuid",
    "arrived_at": "timestamptz",
    "gateway_id": "text",
    "boot_id": "text",
    "sequence": "bigint",
    "request_id": "text",
    "tenant_id": "uuid",
    "key_id": "uuid",
    "user_id": "uuid",
    "end_user": "text",
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
    "queue_ms": "double precision",
    "ttft_ms": "double precision",
    "total_ms": "double precision",
    "cost_usd": "numeric",
    "is_cost_mismatch": "boolean",
    "attempts": "smallint",
    "error_code": "text",
    "tags": "jsonb",
    "workflow_id": "text",
    "wasted_tokens": "bigint",
    "engine_ms": "double precision",
}
_OPTIONAL_IDS = ("tenant_id", "key_id", "user_id", "version_id", "deployment_id", "node_id")
_TEXT_LIMITS = {
    "gateway_id": 64,
    "boot_id": 64,
    "request_id": 128,
    "end_user": 256,
    "path": 100,
    "public_model": 200,
    "service_class": 63,
    "error_code": 100,
    "workflow_id": 128,
}
_CHANGED = {*_OPTIONAL_IDS, *_TEXT_LIMITS, "arrived_at", "replica_id", "cost_usd", "is_cost_mismatch", "tags"}
_UNCHANGED = [name for name in _COLUMNS if name not in _CHANGED]
_NAMES = ", ".join(_COLUMNS)
_TYPED = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
_ROLLUP_KEY = "hour, tenant_id, user_id, key_id, version_id, public_model"
_SUMMED = ("request_count", "unsuccessful_count", "input_tokens", "cached_input_tokens", "output_tokens", "cost_usd")

# The rows are locked in one order, so that two batches never wait for each other in a circle.
_STORE = f"""
WITH stored AS (
    INSERT INTO usage_record ({_NAMES})
    SELECT {_NAMES} FROM jsonb_to_recordset(%s::jsonb) AS incoming({_TYPED}) ORDER BY record_id
    ON CONFLICT DO NOTHING
    RETURNING *
), rolled_up AS (
    INSERT INTO usage_hour ({_ROLLUP_KEY}, {", ".join(_SUMMED)})
    SELECT date_trunc('hour', arrived_at, 'UTC') AS hour, tenant_id, user_id, key_id, version_id, public_model,
           count(*), count(*) FILTER (WHERE outcome <> 'completed'),
           sum(input_tokens), sum(cached_input_tokens), sum(output_tokens), sum(cost_usd)
    FROM stored GROUP BY {_ROLLUP_KEY} ORDER BY {_ROLLUP_KEY}
    ON CONFLICT ({_ROLLUP_KEY}) DO UPDATE SET
        {", ".join(f"{name} = usage_hour.{name} + excluded.{name}" for name in _SUMMED)}
)
SELECT count(*) FROM stored
"""  # noqa: S608 - made of constants


@dataclass(frozen=True)
class IngestCounts:
    """Together, the records that were given; a quarantined one counts as stored."""

    stored: int
    duplicate: int


@transaction.atomic
def ingest_records(*, records: Sequence[UsageRecord], node_id: UUID, now: datetime) -> IngestCounts:
    problems = {index: problem for index, record in enumerate(records) if (problem := problem_of(record))}
    sound = [record for index, record in enumerate(records) if index not in problems]
    stored = _store(sound)
    for index, problem in problems.items():
        stored += _quarantine(records[index], problem, node_id, now)
    return IngestCounts(stored=stored, duplicate=len(records) - stored)


def _store(records: Sequence[UsageRecord]) -> int:
    if not records:
        return 0
    prices = list_dated_prices({record.version_id for record in records if record.version_id})
    rows = [_row_of(record, prices.get(record.version_id, [])) for record in records]
    with connection.cursor() as cursor:
        cursor.execute(_STORE, [msgspec.json.encode(rows).decode()])
        (stored,) = cursor.fetchone()
    return int(stored)


def _row_of(record: UsageRecord, prices: Sequence[DatedPrice]) -> dict[str, Any]:
    arrived_at = datetime.fromtimestamp(record.arrived_at, UTC)
    return {name: getattr(record, name) for name in _UNCHANGED} | {
        "arrived_at": arrived_at.isoformat(),
        "replica_id": record.endpoint_id or None,
        "cost_usd": format(usd_from_pico(record.cost_pico_usd), "f"),
        "is_cost_mismatch": record.cost_pico_usd != cost_pico_usd(record, price_at(prices, arrived_at)),
        "tags": {_text(name, 64): _text(value, 512) for name, value in record.tags.items()},
        **{name: getattr(record, name) or None for name in _OPTIONAL_IDS},
        **{name: _text(getattr(record, name), limit) for name, limit in _TEXT_LIMITS.items()},
    }


def _text(text: str, limit: int) -> str:
    """Postgres stores no NUL, and the client chose some of these texts."""
    return text.replace("\x00", "")[:limit]


def _quarantine(record: UsageRecord, reason: str, node_id: UUID, now: datetime) -> int:
    content = msgspec.json.encode(record)
    _, is_new = QuarantinedRecord.objects.get_or_create(
        content_sha256=hashlib.sha256(content).hexdigest(),
        defaults={"received_at": now, "node_id": node_id, "reason": reason, "content": content},
    )
    return int(is_new)
