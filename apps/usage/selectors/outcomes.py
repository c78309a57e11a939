"""What a successful task costs: outcomes that clients reported, joined with the records of their requests.

A task is a request or a workflow that somebody reported about; its cost is that of all its requests in the range, the
failed ones included. Cost per successful task is the cost of all reported tasks divided by the successful ones. A task
that used two versions counts for both; the totals count it once. A request of a reported workflow is part of that task,
and none of its own. What nobody reported about is shown beside it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection

from apps.common.errors import InvalidInputError
from apps.usage.models import TaskUsage
from apps.usage.policies.slots import whole_slots
from apps.usage.selectors.reports import COLUMN_OF, name_values
from apps.usage.selectors.sums import UsageScope, sums_by

GROUPS = ("version", "model", "tenant", "user", "key")
_PICO = Decimal("1e-12")
_UTC = ZoneInfo("UTC")

# What each task used, from the sums of tasks and from records; then the task itself, and whether its request belongs to
# a workflow that was reported about as a whole.
_TASKS = """
WITH used AS ({used}), told AS (
    SELECT used.task_id, used.subject, sum(used.cost_usd) AS cost_usd
    FROM used LEFT JOIN task_outcome AS whole ON used.workflow_id <> '' AND whole.tenant_id = used.tenant_id
        AND whole.request_id = '' AND whole.workflow_id = used.workflow_id
    WHERE whole.id IS NULL OR whole.id = used.task_id
    GROUP BY used.task_id, used.subject
)
SELECT told.subject, count(*), count(*) FILTER (WHERE task.is_success), sum(told.cost_usd),
       sum(task.value_usd) FILTER (WHERE task.is_success), sum(told.cost_usd) FILTER (WHERE NOT task.is_success)
FROM told JOIN task_outcome AS task ON task.id = told.task_id GROUP BY told.subject
"""
_OF_SUMS = """
    SELECT record.task_id, record.tenant_id, record.workflow_id, {column} AS subject, record.cost_usd
    FROM task_usage AS record WHERE {condition}
"""
_OF_RECORDS = """
    SELECT task.id AS task_id, record.tenant_id, record.workflow_id, {column} AS subject, record.cost_usd
    FROM usage_record AS record JOIN task_outcome AS task ON task.tenant_id = record.tenant_id
        AND task.request_id = record.request_id AND task.workflow_id = '' WHERE {condition}
    UNION ALL
    SELECT task.id, record.tenant_id, record.workflow_id, {column}, record.cost_usd
    FROM usage_record AS record JOIN task_outcome AS task ON task.tenant_id = record.tenant_id
        AND task.request_id = '' AND task.workflow_id = record.workflow_id
    WHERE record.workflow_id <> '' AND {condition}
"""


@dataclass(frozen=True, kw_only=True)
class Waste:
    """What was worked in vain: attempts thrown away (never billed), and requests that came to nothing (as billed)."""

    retries_usd: Decimal
    failures_usd: Decimal
    abandoned_usd: Decimal
    refused_usd: Decimal
    failed_count: int
    abandoned_count: int
    refused_count: int

    @property
    def total_usd(self) -> Decimal:
        """No request is in two of the parts but for its retries, which its own cost does not hold."""
        return self.retries_usd + self.failures_usd + self.abandoned_usd + self.refused_usd


@dataclass(frozen=True, kw_only=True)
class OutcomeRow:
    """`cost_usd` is of everything in the range, `task_cost_usd` of the tasks that were reported about."""

    id: str
    name: str
    task_count: int
    success_count: int
    task_cost_usd: Decimal
    failed_task_cost_usd: Decimal
    value_usd: Decimal | None
    cost_usd: Decimal
    request_count: int
    waste: Waste

    @property
    def cost_per_success_usd(self) -> Decimal | None:
        """To the picodollar, a half upwards; None while no task has succeeded."""
        if not self.success_count:
            return None
        return (self.task_cost_usd / self.success_count).quantize(_PICO, ROUND_HALF_UP)


def report_outcomes(*, scope: UsageScope, group_by: str) -> list[OutcomeRow]:
    """The dearest first."""
    if group_by not in GROUPS:
        raise InvalidInputError(f"can group by {', '.join(GROUPS)}, not by {group_by!r}")
    column = COLUMN_OF[group_by]
    tasks, usage = _tasks(scope, f"record.{column}"), _usage(scope, [column])
    names = name_values(group_by, set(usage))
    rows = [
        _row_of(subject, names.get(subject, str(subject or "")), tasks.get(subject), usage[subject])
        for subject in usage
    ]
    return sorted(rows, key=lambda row: (-row.cost_usd, row.name))


def sum_outcomes(*, scope: UsageScope) -> OutcomeRow:
    usage = _usage(scope, [])
    tasks = _tasks(scope, "NULL::text")
    return _row_of(None, "", tasks.get(None), usage.get(None, {}))


def _tasks(scope: UsageScope, column: str) -> dict[Any, tuple[Any, ...]]:
    parts = list(_parts_of(scope, column))
    statement = _TASKS.format(used=" UNION ALL ".join(sql for sql, _ in parts))
    with connection.cursor() as cursor:
        cursor.execute(statement, [value for _, values in parts for value in values])
        return {row[0]: row[1:] for row in cursor.fetchall()}


def _parts_of(scope: UsageScope, column: str) -> Iterator[tuple[str, list[Any]]]:
    """Whole quarters of an hour from the sums of tasks; what they do not know, and the edges, from the records."""
    whole = whole_slots(scope.start, scope.end) if scope.filters.keys() <= set(TaskUsage.dimensions) else None
    start, end = whole or (scope.end, scope.end)
    if whole is not None:
        condition, values = _condition(scope, "slot", start, end)
        yield _OF_SUMS.format(column=column, condition=condition), values
    for first, last in ((scope.start, start), (end, scope.end)):
        if first < last:
            condition, values = _condition(scope, "arrived_at", first, last)
            yield _OF_RECORDS.format(column=column, condition=condition), [*values, *values]


def _condition(scope: UsageScope, at: str, start: datetime, end: datetime) -> tuple[str, list[Any]]:
    conditions = [f"record.{at} >= %s", f"record.{at} < %s"]
    values: list[Any] = [start, end]
    if scope.tenant_ids is not None:
        conditions.append("record.tenant_id = ANY(%s)")
        values.append(list(scope.tenant_ids))
    for name, value in scope.filters.items():
        conditions.append(f"record.{name} = %s")
        values.append(value)
    return " AND ".join(conditions), values


def _usage(scope: UsageScope, columns: list[str]) -> dict[Any, dict[str, dict[str, Any]]]:
    """Sums by outcome, by subject."""
    found: dict[Any, dict[str, dict[str, Any]]] = {}
    for (_, *values), sums in sums_by(scope=scope, columns=[*columns, "outcome"], time=None, zone=_UTC).items():
        *subject, outcome = values
        found.setdefault(subject[0] if subject else None, {})[outcome] = sums
    return found


def _row_of(subject: Any, name: str, tasks: tuple[Any, ...] | None, usage: dict[str, dict[str, Any]]) -> OutcomeRow:
    task_count, success_count, cost, value, failed_cost = tasks or (0, 0, None, None, None)
    return OutcomeRow(
        id=str(subject or ""),
        name=name,
        task_count=task_count,
        success_count=success_count,
        task_cost_usd=cost or Decimal(),
        failed_task_cost_usd=failed_cost or Decimal(),
        value_usd=value,
        cost_usd=_total(usage, "cost_usd"),
        request_count=int(_total(usage, "request_count")),
        waste=_waste_in(usage),
    )


def _waste_in(usage: dict[str, dict[str, Any]]) -> Waste:
    failed, left = {"failed": usage.get("failed", {})}, {"left": usage.get("client_left", {})}
    refused = {name: usage.get(name, {}) for name in ("refused", "rejected")}
    return Waste(
        retries_usd=_total(usage, "wasted_usd"),
        failures_usd=_total(failed, "cost_usd"),
        abandoned_usd=_total(left, "cost_usd"),
        refused_usd=_total(refused, "cost_usd"),
        failed_count=int(_total(failed, "request_count")),
        abandoned_count=int(_total(left, "request_count")),
        refused_count=int(_total(refused, "request_count")),
    )


def _total(usage: dict[str, dict[str, Any]], name: str) -> Decimal:
    return sum((Decimal(sums.get(name, 0)) for sums in usage.values()), Decimal())
