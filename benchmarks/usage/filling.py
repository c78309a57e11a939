"""Millions of records at once: made by Postgres itself, added to the sums by the statement that ingest uses."""

import time
from datetime import datetime, timedelta
from typing import Any

from benchmarks.usage.yard import NOW

_ID = "('00000000-0000-7000-800{kind}-' || lpad({number}::text, 12, '0'))::uuid"
_COLUMNS = {
    "record_id": "uuidv7(at - clock_timestamp())",
    "arrived_at": "at",
    "received_at": "at + interval '1 second'",
    "gateway_id": "'gateway-' || n %% 8",
    "boot_id": "'bulk-' || n %% 8",
    "sequence": "%(offset)s + n",
    "request_id": "md5((%(offset)s + n)::text)",
    "tenant_id": _ID.format(kind=1, number="tenant"),
    "key_id": _ID.format(kind=2, number="(tenant * 20 + key)"),
    "user_id": _ID.format(kind=3, number="(tenant * 20 + key)"),
    "end_user": "CASE WHEN a < 0.5 THEN 'user-' || tenant || '-' || floor(c * %(end_users)s / 40) ELSE '' END",
    "workflow_id": "CASE WHEN b < 0.3 THEN 'w-' || (%(offset)s + n) / 20 ELSE '' END",
    "path": "'/v1/chat/completions'",
    "public_model": "'model-' || model",
    "version_id": _ID.format(kind=4, number="(model * 2 + (d < 0.1)::int)"),
    "node_id": _ID.format(kind=7, number="1"),
    "service_class": "'standard'",
    "is_stream": "true",
    "status": "200",
    "outcome": "CASE WHEN e < 0.97 THEN 'completed' ELSE 'failed' END",
    "usage_source": "'engine'",
    "input_tokens": "1000 + floor(a * 7000)::bigint",
    "cached_input_tokens": "floor(b * 1000)::bigint",
    "output_tokens": "1 + floor(c * 1000)::bigint",
    "reasoning_tokens": "0",
    "queue_ms": "1.25",
    "ttft_ms": "c * 200",
    "total_ms": "d * 9000",
    "engine_ms": "d * 8000",
    "cost_usd": "round((a * 0.002)::numeric, 12)",
    "list_usd": "round((a * 0.002)::numeric, 12)",
    "gateway_cost_usd": "round((a * 0.002)::numeric, 12)",
    "is_cost_mismatch": "false",
    "attempts": "1",
    "error_code": "''",
    "tags": "'{}'::jsonb",
}
_DRAWN = """
FROM (
    SELECT *, least(floor(-ln(1 - f) * 8), 39)::int AS tenant, floor(g * 20)::int AS key, floor(c * 3)::int AS model,
        %(start)s::timestamptz + n * %(step)s::interval AS at
    FROM (
        SELECT n, random() AS a, random() AS b, random() AS c, random() AS d, random() AS e,
            random() AS f, random() AS g
        FROM generate_series(0, %(count)s - 1) AS n
    ) AS drawn
) AS placed
"""
# Every combination that occurs, in every slot: as many rows as any number of records leaves.
_EVERY_COMBINATION = """
INSERT INTO {table} (slot, {dimensions}, request_count, input_tokens, cached_input_tokens, output_tokens,
    reasoning_tokens, wasted_tokens, unpriced_count, cost_usd, list_usd, wasted_usd)
SELECT slot, {dimensions}, 30, 60000, 1000, 9000, 0, 0, 0, 0.03, 0.03, 0
FROM (SELECT DISTINCT slot FROM usage_total WHERE {table_slots}) AS slots,
     (SELECT DISTINCT {dimensions} FROM {table}) AS combinations
ON CONFLICT DO NOTHING
"""
_TABLES = {
    "usage_total": ("version_id, public_model, outcome", "true"),
    "usage_by_model": ("tenant_id, version_id, public_model, outcome", "true"),
    "usage_day": (
        "tenant_id, user_id, key_id, version_id, public_model, outcome, price_line_id, charged_e8",
        "slot = date_trunc('day', slot, 'UTC')",
    ),
}
# Some of the workflows and of the requests, told of a day later.
_OUTCOMES = """
INSERT INTO task_outcome (tenant_id, request_id, workflow_id, is_success, value_usd, reported_at, received_at)
SELECT tenant_id, '', workflow_id, random() < 0.7, 0.5, slot + interval '1 day', now()
FROM usage_by_workflow WHERE workflow_id <> '' AND random() < 0.04
UNION ALL
SELECT tenant_id, request_id, '', random() < 0.7, 0.5, arrived_at + interval '1 day', now()
FROM usage_record TABLESAMPLE SYSTEM (1)
ON CONFLICT DO NOTHING
"""


def fill(records: int, days: int, end_users: int) -> None:
    """Spread evenly over the days before NOW, a statement for each."""
    began, share = time.perf_counter(), records // days
    for day in range(days):
        _fill_day(NOW - timedelta(days=days - day), day * share, share, end_users)
        print(f"  day {day + 1} of {days} after {time.perf_counter() - began:.0f} s", flush=True)
    _report_outcomes()
    print(f"filled: {share * days:,} records in {time.perf_counter() - began:.0f} s", flush=True)


def _fill_day(start: datetime, offset: int, count: int, end_users: int) -> None:
    from apps.usage.services.rollup_sql import OF_RECORDS, READ, added_to_rollups  # noqa: PLC0415

    chosen = ", ".join(f"{expression} AS {name}" for name, expression in _COLUMNS.items())
    statement = (
        f"WITH stored AS (INSERT INTO usage_record ({', '.join(_COLUMNS)}) SELECT {chosen} {_DRAWN} "
        f"RETURNING {', '.join(READ)}), {added_to_rollups('stored', OF_RECORDS)} SELECT 1"
    )
    values = {"offset": offset, "count": count, "start": start, "step": timedelta(days=1) / count}
    _run(statement, values | {"end_users": end_users})


def _report_outcomes() -> None:
    from apps.usage.services.task_sql import counted_tasks  # noqa: PLC0415

    _run(_OUTCOMES, {})
    _run(counted_tasks().replace("ANY(%(new)s)", "ANY(ARRAY(SELECT id FROM task_outcome))"), {})


def fill_up_sums() -> None:
    """Of the sums that a month's page reads."""
    for table, (dimensions, table_slots) in _TABLES.items():
        _run(_EVERY_COMBINATION.format(table=table, dimensions=dimensions, table_slots=table_slots), {})


def _run(statement: str, values: dict[str, Any]) -> None:
    from django.db import connection, transaction  # noqa: PLC0415 - after Django is set up

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute("SET LOCAL work_mem = '128MB'")
        cursor.execute(statement, values)
