"""The SQL that adds what the requests of reported tasks cost to the sums of those tasks."""

from apps.usage.models import TaskUsage
from apps.usage.models.outcomes import TASK_USAGE
from apps.usage.services.rollup_sql import SLOT_OF_ARRIVAL

_TABLE = TaskUsage._meta.db_table  # noqa: SLF001 - Django's documented API
_SLOT = SLOT_OF_ARRIVAL.format(seconds=int(TaskUsage.grain.total_seconds()))
_KEY = ", ".join(TASK_USAGE)
_OF_USAGE = ", ".join(f"used.{name}" for name in TASK_USAGE if name not in {"task_id", "slot"})
# Of a request, or else of a workflow; each is found by the unique key of task_outcome.
_WAYS = (
    "task.request_id = used.request_id AND task.workflow_id = ''",
    "task.request_id = '' AND task.workflow_id = used.workflow_id AND used.workflow_id <> ''",
)


def added_to_tasks(source: str, cost: str) -> str:
    """A CTE that follows the CTE `source` of records, with `cost` of each, a column or an expression."""
    return f"{_TABLE}_added AS ({_inserted(source, cost, 'true')})"


def _inserted(source: str, cost: str, condition: str) -> str:
    chosen = " UNION ALL ".join(
        f"SELECT task.id, {_SLOT} AS slot, {_OF_USAGE}, {cost} AS cost_usd FROM {source} AS used "  # noqa: S608 - constants
        f"JOIN task_outcome AS task ON task.tenant_id = used.tenant_id AND {way} WHERE {condition}"
        for way in _WAYS
    )
    return (
        f"INSERT INTO {_TABLE} ({_KEY}, cost_usd) SELECT {_KEY}, sum(cost_usd) "  # noqa: S608 - constants
        f"FROM ({chosen}) AS added ({_KEY}, cost_usd) GROUP BY {_KEY} ORDER BY {_KEY} "
        f"ON CONFLICT ({_KEY}) DO UPDATE SET cost_usd = {_TABLE}.cost_usd + excluded.cost_usd"
    )


def counted_tasks() -> str:
    """A statement for tasks that are new, by id: all that is stored of their requests."""
    return _inserted("usage_record", "used.cost_usd", "task.id = ANY(%(new)s)")
