"""Reports of usage: who used what, when, and what it cost; every one the sum of the records, to the last token."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.common.actors import Actor
from apps.common.errors import InvalidInputError, NotAllowedError
from apps.registry.selectors import name_versions
from apps.tenants.policies import has_every_tenant
from apps.tenants.selectors import list_tenant_ids_under, name_keys, name_tenants, name_users
from apps.usage.selectors.sums import TIMES, Sums, UsageScope, greatest_sums, sums_by

MAX_ROWS = 20_000
MAX_DAYS = 400
COLUMN_OF = {
    "tenant": "tenant_id",
    "user": "user_id",
    "model": "public_model",
    "version": "version_id",
    "key": "key_id",
    "end_user": "end_user",
    "workflow": "workflow_id",
    "outcome": "outcome",
}
GROUPS = ("day", "hour", "month", *COLUMN_OF)
_NAMERS = {"tenant": name_tenants, "user": name_users, "version": name_versions, "key": name_keys}
_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, kw_only=True)
class UsageTotals:
    request_count: int = 0
    unsuccessful_count: int = 0
    unpriced_count: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    wasted_tokens: int = 0
    list_usd: Decimal = field(default_factory=Decimal)
    cost_usd: Decimal = field(default_factory=Decimal)
    wasted_usd: Decimal = field(default_factory=Decimal)


@dataclass(frozen=True, kw_only=True)
class UsageRow(UsageTotals):
    """`ids` and `names` have an entry per group; an id is empty where the records had none."""

    day: date | None = None
    hour: datetime | None = None
    month: date | None = None
    ids: dict[str, str]
    names: dict[str, str]


TOTALS = tuple(each.name for each in fields(UsageTotals))


def scope_for(
    *,
    actor: Actor,
    start: datetime,
    end: datetime,
    tenant_id: UUID | None = None,
    **filters: Any,
) -> UsageScope:
    """The gate: without a tenant it is everything the actor may see. `filters` are fields of UsageScope."""
    if end <= start or (end - start).days > MAX_DAYS:
        raise InvalidInputError(f"the range must end after it starts and span {MAX_DAYS} days at most")
    if any("\x00" in value for value in filters.values() if isinstance(value, str)):
        raise InvalidInputError("a filter holds a NUL character")
    return UsageScope(tenant_ids=_tenants_of(actor, tenant_id), start=start, end=end, **filters)


def _tenants_of(actor: Actor, tenant_id: UUID | None) -> tuple[UUID, ...] | None:
    if tenant_id is not None:
        return list_tenant_ids_under(actor=actor, tenant_id=tenant_id)
    if has_every_tenant(actor):
        return None
    if not actor.roles:
        raise NotAllowedError("you belong to no tenant")
    return tuple(actor.roles)


def report_usage(*, scope: UsageScope, group_by: Sequence[str], zone: ZoneInfo) -> list[UsageRow]:
    """One row per combination of groups, in their order. Hours, days and months are those of `zone`."""
    groups = list(dict.fromkeys(group_by))
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise InvalidInputError(f"can group by {', '.join(GROUPS)}, not by {unknown[0]!r}")
    times = [group for group in groups if group in TIMES]
    if len(times) > 1:
        raise InvalidInputError("group by one of hour, day and month")
    named = [group for group in groups if group not in TIMES]
    found = sums_by(
        scope=scope, columns=[COLUMN_OF[group] for group in named], time=times[0] if times else None, zone=zone
    )
    if len(found) > MAX_ROWS:
        raise InvalidInputError(f"more than {MAX_ROWS} rows: group by less or shorten the range")
    return _rows_of(found, named, times, zone)


def rank_usage(*, scope: UsageScope, group: str, by: str, size: int) -> list[UsageRow]:
    """The rows of `report_usage` by one group other than time that have the most of `by`, the greatest first."""
    found = greatest_sums(scope=scope, column=COLUMN_OF[group], by=by, size=size)
    names = {group: name_values(group, set(found))}
    return [_row_of((None, value), sums, [group], names, []) for value, sums in found.items()]


def sum_usage(*, scope: UsageScope) -> UsageTotals:
    found = sums_by(scope=scope, columns=[], time=None, zone=_UTC)
    return UsageTotals(**next(iter(found.values())))


def _rows_of(found: dict[tuple[Any, ...], Sums], named: list[str], times: list[str], zone: ZoneInfo) -> list[UsageRow]:
    names = {group: name_values(group, {key[place] for key in found}) for place, group in enumerate(named, start=1)}
    ordered = sorted(found, key=lambda key: [(value is not None, str(value)) for value in key])
    return [_row_of((_local(key[0], zone), *key[1:]), found[key], named, names, times) for key in ordered]


def _local(moment: Any, zone: ZoneInfo) -> Any:
    return moment.astimezone(zone) if isinstance(moment, datetime) else moment


def name_values(group: str, values: set[Any]) -> dict[Any, str]:
    """What the values of a group's column are called now; a text is its own name."""
    known = values - {None}
    namer = _NAMERS.get(group)
    return namer(known) if namer else {value: value for value in known}


def _row_of(
    key: tuple[Any, ...], sums: Sums, named: list[str], names: dict[str, dict[Any, str]], times: list[str]
) -> UsageRow:
    moment, *values = key
    by_group = dict(zip(named, values, strict=True))
    return UsageRow(
        **dict.fromkeys(times, moment),
        ids={group: str(value or "") for group, value in by_group.items()},
        names={group: names[group].get(value, str(value or "")) for group, value in by_group.items()},
        **sums,
    )
