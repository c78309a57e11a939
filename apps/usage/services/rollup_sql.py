"""The SQL that adds records, or changes of their costs, to every rollup: parts of the statements that store them."""

from apps.usage.models import (
    UsageByEndUser,
    UsageByModel,
    UsageByWorkflow,
    UsageDay,
    UsageEndUserDay,
    UsageSlot,
    UsageTotal,
    UsageWorkflowTotal,
)
from apps.usage.models.rollups import UsageSums

ROLLUPS = (
    UsageSlot,
    UsageByEndUser,
    UsageByWorkflow,
    UsageEndUserDay,
    UsageWorkflowTotal,
    UsageDay,
    UsageByModel,
    UsageTotal,
)  # the most shared rows last
SUMS = (
    "request_count",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "wasted_tokens",
    "unpriced_count",
    "list_usd",
    "cost_usd",
    "wasted_usd",
)
SLOT_OF_ARRIVAL = "date_bin('{seconds} seconds', arrived_at, TIMESTAMPTZ '2000-01-01 00:00+00')"

READ = (
    "arrived_at",
    "request_id",
    "is_unpriced",
    *dict.fromkeys(name for rollup in ROLLUPS for name in rollup.dimensions if name != "slot"),
    *(name for name in SUMS if name not in {"request_count", "unpriced_count"}),
)  # of each record
OF_RECORDS = {
    "request_count": "count(*)",
    "unpriced_count": "count(*) FILTER (WHERE is_unpriced)",
    **{name: f"sum({name})" for name in SUMS if name not in {"request_count", "unpriced_count"}},
}
OF_CHANGES = {
    "request_count": "sum(sign)",
    "unpriced_count": "sum(sign * is_unpriced::integer)",
    **{name: f"sum(sign * {name})" for name in SUMS if name not in {"request_count", "unpriced_count"}},
}


def added_to_rollups(source: str, sums: dict[str, str]) -> str:
    """One CTE per rollup, to follow the CTE `source`, which has the columns READ.

    Rows are locked in one order, so that no two batches deadlock.
    """
    return ", ".join(_added(rollup, source, sums) for rollup in ROLLUPS)


def _added(rollup: type[UsageSums], source: str, sums: dict[str, str]) -> str:
    table = rollup._meta.db_table  # noqa: SLF001 - Django's documented API
    key = ", ".join(rollup.dimensions)
    slot = SLOT_OF_ARRIVAL.format(seconds=int(rollup.grain.total_seconds()))
    chosen = key.replace("slot", f"{slot} AS slot", 1)
    return f"""{table}_added AS (
        INSERT INTO {table} ({key}, {", ".join(SUMS)})
        SELECT {chosen}, {", ".join(sums[name] for name in SUMS)} FROM {source} GROUP BY {key} ORDER BY {key}
        ON CONFLICT ({key}) DO UPDATE SET {", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in SUMS)}
    )"""  # noqa: S608 - made of constants
