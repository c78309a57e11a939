"""Charges of a scope, a day after the other, so that memory holds one day's at most."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.common.one_look import limit_idle_time, one_look
from apps.usage.models import PriceEntry
from apps.usage.policies import focus
from apps.usage.policies.pricing import pico_from_usd
from apps.usage.policies.slots import utc_days
from apps.usage.policies.tables import Table
from apps.usage.selectors.prices import list_price_of
from apps.usage.selectors.reports import COLUMN_OF, name_values
from apps.usage.selectors.sums import Sums, UsageScope, sums_by
from workers.contracts.pricing import WHOLE_E8

_GROUPS = ("tenant", "version", "model", "key")
_COLUMNS = (*(COLUMN_OF[group] for group in _GROUPS), "price_line_id", "charged_e8")
_UTC = ZoneInfo("UTC")


def focus_table(*, scope: UsageScope) -> Table:
    return Table(focus.columns(), lambda: _rows(scope))


def _rows(scope: UsageScope) -> Iterator[Any]:
    with one_look():
        limit_idle_time()
        for start, end in utc_days(scope.start, scope.end):
            for charge in _charges_of(replace(scope, start=start, end=end)):
                yield from focus.rows_of(charge)


def _charges_of(day: UsageScope) -> Iterator[focus.Charge]:
    found = sums_by(scope=day, columns=_COLUMNS, time=None, zone=_UTC)
    names = {group: name_values(group, {key[place] for key in found}) for place, group in enumerate(_GROUPS, start=1)}
    lines = PriceEntry.objects.in_bulk({key[-2] for key in found if key[-2] is not None})
    for key in sorted(found, key=lambda key: [str(part) for part in key]):
        yield _charge(day, key, found[key], names, lines)


def _charge(
    day: UsageScope, key: Any, sums: Sums, names: dict[str, dict[Any, str]], lines: dict[UUID, PriceEntry]
) -> focus.Charge:
    _, tenant_id, version_id, model, key_id, line_id, charged_e8 = key
    line = lines.get(line_id)
    return focus.Charge(
        start=day.start,
        end=day.end,
        tenant_id=str(tenant_id or ""),
        tenant=names["tenant"].get(tenant_id, str(tenant_id or "")),
        version_id=str(version_id or ""),
        version=names["version"].get(version_id, str(version_id or "")),
        model=model,
        key=names["key"].get(key_id, str(key_id or "")),
        input_tokens=int(sums["input_tokens"] - sums["cached_input_tokens"]),
        cached_input_tokens=int(sums["cached_input_tokens"]),
        output_tokens=int(sums["output_tokens"]),
        sku=str(line.version_id or line.model_id) if line else None,
        price=list_price_of(line).price if line else None,
        charged_e8=charged_e8 if line else WHOLE_E8,
        list_pico_usd=pico_from_usd(sums["list_usd"]),
        cost_pico_usd=pico_from_usd(sums["cost_usd"]),
    )
