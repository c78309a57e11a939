"""Sums over a scope, from the smallest rollup that knows the question; the edges of the range from the records."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import BigIntegerField, Case, DateTimeField, F, Func, Model, Q, QuerySet, Sum, Value, When
from django.db.models.functions import TruncDate

from apps.common.errors import InvalidInputError
from apps.usage.models import (
    UsageByEndUser,
    UsageByModel,
    UsageByWorkflow,
    UsageDay,
    UsageEndUserDay,
    UsageRecord,
    UsageSlot,
    UsageTotal,
    UsageWorkflowTotal,
)
from apps.usage.models.rollups import UsageSums
from apps.usage.policies.slots import SLOT, start_of_hour, whole_days, whole_slots

ADDED = (
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "wasted_tokens",
    "list_usd",
    "cost_usd",
    "wasted_usd",
)
SUMS = ("request_count", "unsuccessful_count", "unpriced_count", *ADDED)
TIMES = ("hour", "day", "month")
MAX_GROUPS = 400_000
_ROLLUPS: tuple[type[UsageSums], ...] = (
    UsageTotal,
    UsageByModel,
    UsageSlot,
    UsageByEndUser,
    UsageByWorkflow,
)  # smallest first
_DAYS: tuple[type[UsageSums], ...] = (UsageDay, UsageEndUserDay, UsageWorkflowTotal)
_UTC = ZoneInfo("UTC")
_COUNT = BigIntegerField()
_SLOT_ORIGIN = datetime.fromisoformat("2000-01-01T00:00:00+00:00")

Key = tuple[Any, ...]
Sums = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class UsageScope:
    """Which records count: `start` ≤ arrived_at < `end`. `tenant_ids` None stands for all; made by `scope_for`."""

    tenant_ids: tuple[UUID, ...] | None
    start: datetime
    end: datetime
    user_id: UUID | None = None
    key_id: UUID | None = None
    version_id: UUID | None = None
    public_model: str = ""
    end_user: str = ""
    workflow_id: str = ""
    outcome: str = ""

    @property
    def filters(self) -> dict[str, Any]:
        """By column, of what is asked for."""
        names = ("user_id", "key_id", "version_id", "public_model", "end_user", "workflow_id", "outcome")
        return {name: value for name in names if (value := getattr(self, name))}


@dataclass(frozen=True)
class _Part:
    rows: QuerySet[Any]
    at: str


def sums_by(*, scope: UsageScope, columns: Sequence[str], time: str | None, zone: ZoneInfo) -> dict[Key, Sums]:
    """By (moment or None, value of each column). Hours are instants in UTC, days and months dates; all of `zone`."""
    found: dict[Key, Sums] = {}
    for part in _parts_of(scope, columns, may_use_days=time is None or (time != "hour" and zone == _UTC)):
        for row in _grouped(part, columns, time, zone):
            key = (_moment(row.get("moment"), time, zone), *(row[column] for column in columns))
            _add(found.setdefault(key, no_sums()), row)
    return found


def greatest_sums(*, scope: UsageScope, column: str, by: str, size: int) -> dict[Any, Sums]:
    """Of the values of a column, those with the most of `by`, however many values there are. The greatest first."""
    parts = _parts_of(scope, [column], may_use_days=True)
    found = {value: no_sums() for value in _greatest_values(parts, column, by, size)}
    is_one = Q(**{f"{column}__in": [value for value in found if value is not None]})
    is_none = Q(**{f"{column}__isnull": True}) if None in found else Q()
    for part in parts:
        rows = part.rows.filter(is_one | is_none).order_by().values(column)
        for row in rows.annotate(**_sums_over(part.rows.model)):
            _add(found[row[column]], row)
    return found


def _greatest_values(parts: Sequence[_Part], column: str, by: str, size: int) -> list[Any]:
    """One sum of every value is cheap; the others are added up for the greatest only.

    All rows are grouped at once: to group the parts first and then their groups takes half as long again.
    """
    chosen = [part.rows.order_by().values_list(column, _amounts_of(part.rows.model)[by]) for part in parts]
    statements, parameters = zip(*(rows.query.sql_with_params() for rows in chosen), strict=True)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT value FROM ({' UNION ALL '.join(f'({statement})' for statement in statements)})"  # noqa: S608 - Django's
            " AS parts (value, amount) GROUP BY value ORDER BY sum(amount) DESC, value LIMIT %s",
            [*chain(*parameters), size],
        )
        return [value for (value,) in cursor.fetchall()]


def within(rows: QuerySet[Any], scope: UsageScope, *, at: str, start: datetime, end: datetime) -> QuerySet[Any]:
    rows = rows.filter(**{f"{at}__gte": start, f"{at}__lt": end}, **scope.filters)
    return rows if scope.tenant_ids is None else rows.filter(tenant_id__in=scope.tenant_ids)


def _parts_of(scope: UsageScope, columns: Sequence[str], *, may_use_days: bool) -> list[_Part]:
    needed = {*columns, *scope.filters, *(() if scope.tenant_ids is None else ("tenant_id",))}
    rollup = next((rollup for rollup in _ROLLUPS if needed <= set(rollup.dimensions)), None)
    by_day = next((rollup for rollup in _DAYS if needed <= set(rollup.dimensions)), None)
    days = whole_days(scope.start, scope.end) if may_use_days and rollup is not UsageTotal else None
    if by_day is None or days is None:
        return _slots_and_edges(rollup, scope, scope.start, scope.end)
    return [
        _of_sums(by_day, scope, *days),
        *_slots_and_edges(rollup, scope, scope.start, days[0]),
        *_slots_and_edges(rollup, scope, days[1], scope.end),
    ]


def _slots_and_edges(rollup: type[UsageSums] | None, scope: UsageScope, start: datetime, end: datetime) -> list[_Part]:
    """The stretch from the sums of its whole slots, and from the records beside them, or where no sum knows."""
    whole = whole_slots(start, end) if rollup is not None else None
    if rollup is None or whole is None:
        return [_of_records(scope, start, end)] if start < end else []
    edges = [(start, whole[0]), (whole[1], end)]
    return [
        _of_sums(rollup, scope, *whole),
        *(_of_records(scope, first, last) for first, last in edges if first < last),
    ]


def _of_sums(rollup: type[UsageSums], scope: UsageScope, start: datetime, end: datetime) -> _Part:
    return _Part(within(rollup._default_manager.all(), scope, at="slot", start=start, end=end), "slot")  # noqa: SLF001 - Django's documented API


def _of_records(scope: UsageScope, start: datetime, end: datetime) -> _Part:
    return _Part(within(UsageRecord.objects.all(), scope, at="arrived_at", start=start, end=end), "arrived_at")


def _grouped(part: _Part, columns: Sequence[str], time: str | None, zone: ZoneInfo) -> list[dict[str, Any]]:
    rows, names = part.rows.order_by(), list(columns)
    if time is not None:
        rows, names = rows.annotate(moment=_moment_sql(part.at, time, zone)), ["moment", *names]
    found = list(rows.values(*names).annotate(**_sums_over(rows.model))[: MAX_GROUPS + 1]) if names else [_whole(rows)]
    if len(found) > MAX_GROUPS:
        raise InvalidInputError("too many rows: group by less or shorten the range")
    return found


def _whole(rows: QuerySet[Any]) -> dict[str, Any]:
    return rows.aggregate(**_sums_over(rows.model))


def _moment_sql(at: str, time: str, zone: ZoneInfo) -> Any:
    if time == "hour":
        bins = (Value(SLOT), F(at), Value(_SLOT_ORIGIN))
        return Func(*bins, function="date_bin", output_field=DateTimeField())
    return TruncDate(at, tzinfo=zone)


def _moment(value: Any, time: str | None, zone: ZoneInfo) -> Any:
    """An hour is its first instant in UTC: two that the clocks repeat would be equal in local time."""
    if time == "hour":
        return start_of_hour(value, zone)
    if time == "month":
        return date(value.year, value.month, 1)
    return value


def _sums_over(model: type[Model]) -> dict[str, Any]:
    """Named sum_*, since an annotation may not take a column's name."""
    return {f"sum_{name}": Sum(amount) for name, amount in _amounts_of(model).items()}


def _amounts_of(model: type[Model]) -> dict[str, Any]:
    """What one row, a record's or a sum's, adds to each of SUMS."""
    is_record = model is UsageRecord
    requests: Any = Value(1) if is_record else F("request_count")
    unpriced: Any = (
        Case(When(is_unpriced=True, then=1), default=0, output_field=_COUNT) if is_record else F("unpriced_count")
    )
    return {
        "request_count": requests,
        "unsuccessful_count": Case(When(outcome="completed", then=0), default=requests, output_field=_COUNT),
        "unpriced_count": unpriced,
        **{name: F(name) for name in ADDED},
    }


def _add(sums: Sums, row: dict[str, Any]) -> None:
    for name in SUMS:
        sums[name] += row[f"sum_{name}"] or 0


def _added(row: dict[str, Any]) -> Sums:
    sums = no_sums()
    _add(sums, row)
    return sums


def no_sums() -> Sums:
    return {name: Decimal() if name.endswith("_usd") else 0 for name in SUMS}
