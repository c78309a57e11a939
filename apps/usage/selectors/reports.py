"""Sums of usage. They come from the hourly rollup where hours add up to the question, from the records elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate

from apps.common.actors import Actor
from apps.common.errors import InvalidInputError, NotAllowedError
from apps.registry.selectors import name_versions
from apps.tenants.policies import has_every_tenant
from apps.tenants.selectors import list_tenant_ids_under, name_keys, name_tenants, name_users
from apps.usage.models import UsageHour, UsageRecord
from apps.usage.policies import fits_hours

GROUPS = ("day", "tenant", "user", "model", "version", "key")
MAX_ROWS = 20_000
MAX_DAYS = 400
_COLUMN_OF = {
    "tenant": "tenant_id",
    "user": "user_id",
    "model": "public_model",
    "version": "version_id",
    "key": "key_id",
}
_SUMS = ("request_count", "unsuccessful_count", "input_tokens", "cached_input_tokens", "output_tokens", "cost_usd")
_COUNTS = ("request_count", "unsuccessful_count")
_NAMERS = {"tenant": name_tenants, "user": name_users, "version": name_versions, "key": name_keys}


@dataclass(frozen=True, kw_only=True)
class UsageScope:
    """Which records count: `start` ≤ arrived_at < `end`. `tenant_ids` None stands for all; made by `scope_for`."""

    tenant_ids: tuple[UUID, ...] | None
    start: datetime
    end: datetime
    user_id: UUID | None = None
    key_id: UUID | None = None
    public_model: str = ""


@dataclass(frozen=True, kw_only=True)
class UsageRow:
    """`ids` and `names` have an entry per group; an id is empty where the records had none."""

    day: date | None
    ids: dict[str, str]
    names: dict[str, str]
    request_count: int
    unsuccessful_count: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    cost_usd: Decimal


@dataclass(frozen=True, kw_only=True)
class UsageTotals:
    request_count: int = 0
    unsuccessful_count: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = field(default_factory=Decimal)


def scope_for(
    *,
    actor: Actor,
    start: datetime,
    end: datetime,
    tenant_id: UUID | None = None,
    user_id: UUID | None = None,
    key_id: UUID | None = None,
    public_model: str = "",
) -> UsageScope:
    """The gate: without a tenant it is everything the actor may see."""
    if end <= start or (end - start).days > MAX_DAYS:
        raise InvalidInputError(f"the range must end after it starts and span {MAX_DAYS} days at most")
    if "\x00" in public_model:
        raise InvalidInputError("the model name holds a NUL character")
    return UsageScope(
        tenant_ids=_tenants_of(actor, tenant_id),
        start=start,
        end=end,
        user_id=user_id,
        key_id=key_id,
        public_model=public_model,
    )


def _tenants_of(actor: Actor, tenant_id: UUID | None) -> tuple[UUID, ...] | None:
    if tenant_id is not None:
        return list_tenant_ids_under(actor=actor, tenant_id=tenant_id)
    if has_every_tenant(actor):
        return None
    if not actor.roles:
        raise NotAllowedError("you belong to no tenant")
    return tuple(actor.roles)


def report_usage(*, scope: UsageScope, group_by: Sequence[str], zone: ZoneInfo) -> list[UsageRow]:
    """One row per combination of groups, in their order. Days are those of `zone`."""
    unknown = [group for group in group_by if group not in GROUPS]
    if unknown:
        raise InvalidInputError(f"can group by {', '.join(GROUPS)}, not by {unknown[0]!r}")
    columns = ["day" if group == "day" else _COLUMN_OF[group] for group in dict.fromkeys(group_by)]
    has_days = "day" in columns
    source, at = _source_for(scope, zone if has_days else None)
    if has_days:
        source = source.annotate(day=TruncDate(at, tzinfo=zone))
    rows = list(_summed(source, columns).order_by(*columns)[: MAX_ROWS + 1])
    if len(rows) > MAX_ROWS:
        raise InvalidInputError(f"more than {MAX_ROWS} rows: group by less or shorten the range")
    return _with_names(rows, [group for group in dict.fromkeys(group_by) if group != "day"])


def sum_usage(*, scope: UsageScope) -> UsageTotals:
    source, _ = _source_for(scope, None)
    sums = source.aggregate(**_sums_over(source))
    totals: dict[str, Any] = {name: sums[f"sum_{name}"] or 0 for name in _SUMS}
    return UsageTotals(**totals)


def _source_for(scope: UsageScope, zone: ZoneInfo | None) -> tuple[QuerySet[Any], str]:
    if fits_hours(scope.start, scope.end, zone):
        return _scoped(UsageHour.objects.all(), scope, "hour"), "hour"
    return _scoped(UsageRecord.objects.all(), scope, "arrived_at"), "arrived_at"


def _scoped(rows: QuerySet[Any], scope: UsageScope, at: str) -> QuerySet[Any]:
    rows = rows.filter(**{f"{at}__gte": scope.start, f"{at}__lt": scope.end})
    if scope.tenant_ids is not None:
        rows = rows.filter(tenant_id__in=scope.tenant_ids)
    if scope.user_id is not None:
        rows = rows.filter(user_id=scope.user_id)
    if scope.key_id is not None:
        rows = rows.filter(key_id=scope.key_id)
    return rows.filter(public_model=scope.public_model) if scope.public_model else rows


def _summed(rows: QuerySet[Any], columns: list[str]) -> Any:
    return rows.values(*columns).annotate(**_sums_over(rows))


def _sums_over(rows: QuerySet[Any]) -> dict[str, Any]:
    """Named sum_*, since an annotation may not take a column's name."""
    sums: dict[str, Any] = {f"sum_{name}": Sum(name) for name in _SUMS if name not in _COUNTS}
    if rows.model is UsageHour:
        return sums | {f"sum_{name}": Sum(name) for name in _COUNTS}
    unsuccessful = Count("record_id", filter=~Q(outcome="completed"))
    return sums | {"sum_request_count": Count("record_id"), "sum_unsuccessful_count": unsuccessful}


def _with_names(rows: list[dict[str, Any]], groups: list[str]) -> list[UsageRow]:
    names = {group: _names_in(group, rows) for group in groups}
    return [_row_of(row, groups, names) for row in rows]


def _names_in(group: str, rows: list[dict[str, Any]]) -> dict[Any, str]:
    values = {row[_COLUMN_OF[group]] for row in rows} - {None}
    namer = _NAMERS.get(group)
    return namer(values) if namer else {value: value for value in values}


def _row_of(row: dict[str, Any], groups: list[str], names: dict[str, dict[Any, str]]) -> UsageRow:
    values = {group: row[_COLUMN_OF[group]] for group in groups}
    return UsageRow(
        day=row.get("day"),
        ids={group: str(value or "") for group, value in values.items()},
        names={group: names[group].get(value, str(value or "")) for group, value in values.items()},
        **{name: row[f"sum_{name}"] for name in _SUMS},
    )
