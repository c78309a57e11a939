from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

from apps.usage.policies import focus
from apps.usage.policies.tables import Table
from apps.usage.selectors.reports import COLUMN_OF, name_values
from apps.usage.selectors.sums import Sums, UsageScope, sums_by

_GROUPS = ("tenant", "version", "model", "key")
_UTC = ZoneInfo("UTC")


def focus_table(*, scope: UsageScope) -> Table:
    found = sums_by(scope=scope, columns=[COLUMN_OF[group] for group in _GROUPS], time="day", zone=_UTC)
    names = {group: name_values(group, {key[place] for key in found}) for place, group in enumerate(_GROUPS, start=1)}
    charges = (_charge(key, found[key], names) for key in sorted(found, key=lambda key: [str(part) for part in key]))
    return Table(focus.columns(), lambda: _rows(charges))


def _rows(charges: Iterator[focus.Charge]) -> Iterator[Any]:
    return map(focus.row_of, charges)


def _charge(key: tuple[Any, ...], sums: Sums, names: dict[str, dict[Any, str]]) -> focus.Charge:
    day, tenant_id, version_id, model, key_id = key
    return focus.Charge(
        day=day,
        tenant_id=str(tenant_id or ""),
        tenant=names["tenant"].get(tenant_id, str(tenant_id or "")),
        version_id=str(version_id or ""),
        version=names["version"].get(version_id, str(version_id or "")),
        model=model,
        key=names["key"].get(key_id, str(key_id or "")),
        request_count=sums["request_count"],
        tokens=int(sums["input_tokens"] + sums["output_tokens"]),
        list_usd=sums["list_usd"],
        cost_usd=sums["cost_usd"],
    )
