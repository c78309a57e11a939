"""Outcomes that clients reported. The newest report of a task holds, in whatever order reports arrive."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from django.db import connection

from apps.usage.policies.pricing import usd_from_pico
from apps.usage.services.task_sql import counted_tasks
from workers.contracts.usage import UsageRecord

_KEEP = """
INSERT INTO task_outcome (tenant_id, request_id, workflow_id, is_success, value_usd, key_id, reported_at, received_at)
SELECT tenant_id, request_id, workflow_id, is_success, value_usd, key_id, reported_at, received_at
FROM jsonb_to_recordset(%s::jsonb) AS told(
    tenant_id uuid, request_id text, workflow_id text, is_success boolean, value_usd numeric, key_id uuid,
    reported_at timestamptz, received_at timestamptz)
ON CONFLICT (tenant_id, request_id, workflow_id) DO UPDATE SET
    is_success = excluded.is_success, value_usd = excluded.value_usd, key_id = excluded.key_id,
    reported_at = excluded.reported_at, received_at = excluded.received_at
WHERE task_outcome.reported_at <= excluded.reported_at
RETURNING new.id, old.id IS NULL
"""
_COUNT = counted_tasks()
_LOCK = "SELECT pg_advisory_xact_lock{way}(hashtext('usage.outcomes'))"


def hold_outcomes() -> None:
    """Until the transaction ends nobody else's report becomes a task: who writes records calls this before.

    Otherwise a record and the first report of its task, stored at once, would not see each other.
    """
    _lock("_shared")


def await_records() -> None:
    """Until the transaction ends nobody else writes records: who stores reports calls this before."""
    _lock("")


def _lock(way: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_LOCK.format(way=way))


def keep_outcomes(records: Sequence[UsageRecord], *, now: datetime) -> None:
    newest = {_task_of(record): record for record in sorted(records, key=lambda record: record.arrived_at)}
    if newest:
        rows = [_row_of(newest[task], now) for task in sorted(newest)]
        with connection.cursor() as cursor:
            cursor.execute(_KEEP, [msgspec.json.encode(rows).decode()])
            if new := [task for task, is_new in cursor.fetchall() if is_new]:
                cursor.execute(_COUNT, {"new": new})


def _task_of(record: UsageRecord) -> tuple[str, str, str]:
    told = record.task_outcome
    assert told is not None  # noqa: S101 - the caller chose them
    return record.tenant_id, _text(told.request_id), _text(told.workflow_id)


def _row_of(record: UsageRecord, now: datetime) -> dict[str, object]:
    told = record.task_outcome
    assert told is not None  # noqa: S101 - the caller chose them
    value = told.value_pico_usd
    return {
        "tenant_id": record.tenant_id,
        "request_id": _text(told.request_id),
        "workflow_id": _text(told.workflow_id),
        "is_success": told.is_success,
        "value_usd": None if value is None else format(usd_from_pico(value), "f"),
        "key_id": record.key_id or None,
        "reported_at": datetime.fromtimestamp(record.arrived_at, UTC).isoformat(),
        "received_at": now.isoformat(),
    }


def _text(text: str) -> str:
    return text.replace("\x00", "")[:128]
