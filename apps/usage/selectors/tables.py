"""Reports and records as tables for files: the same rows that the pages and REST show."""

from collections.abc import Iterator, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from apps.common.one_look import in_one_look
from apps.usage.models import UsageRecord
from apps.usage.policies.tables import Column, Table, kind_of
from apps.usage.selectors.records import list_records
from apps.usage.selectors.reports import TOTALS, UsageRow, report_usage
from apps.usage.selectors.sums import TIMES, UsageScope

_CHUNK_ROWS = 2000


def report_table(*, scope: UsageScope, group_by: Sequence[str], zone: ZoneInfo) -> Table:
    rows = report_usage(scope=scope, group_by=group_by, zone=zone)
    times = [group for group in group_by if group in TIMES] or ["day"]
    named = [group for group in dict.fromkeys(group_by) if group not in TIMES]
    columns = [
        *(Column(time, "text" if time == "hour" else "day") for time in times),
        *(Column(group) for group in named),
        *(Column(f"{group}_id") for group in named),
        *(Column(name, kind_of(name)) for name in TOTALS),
    ]
    return Table(columns, lambda: (_values_of(row, times, named) for row in rows))


def _values_of(row: UsageRow, times: list[str], named: list[str]) -> list[Any]:
    moments = [row.hour.isoformat() if time == "hour" and row.hour else getattr(row, time) for time in times]
    texts = [*(row.names[group] for group in named), *(row.ids[group] for group in named)]
    return [*moments, *texts, *(getattr(row, name) for name in TOTALS)]


def records_table(*, scope: UsageScope) -> Table:
    names = [field.name for field in UsageRecord._meta.concrete_fields if field.name != "pk"]  # noqa: SLF001 - Django's documented API
    rows = list_records(scope=scope).values_list(*names)
    return Table(
        [Column(name, kind_of(name)) for name in names], lambda: _plain(in_one_look(rows, chunk_rows=_CHUNK_ROWS))
    )


def _plain(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[Any]]:
    for row in rows:
        yield [msgspec.json.encode(value).decode() if isinstance(value, dict) else value for value in row]
