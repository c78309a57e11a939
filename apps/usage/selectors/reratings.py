from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from apps.common.errors import NotFoundError
from apps.usage.models import Rerating, ReratingState
from apps.usage.policies.pricing import usd_from_pico

FIGURES = ("records", "changed", "before_pico_usd", "after_pico_usd")


def list_reratings() -> QuerySet[Rerating]:
    return Rerating.objects.all()


def get_rerating(rerating_id: UUID) -> Rerating:
    row = Rerating.objects.filter(pk=rerating_id).first()
    if row is None:
        raise NotFoundError("no such re-rating")
    return row


def list_under_way(start: datetime, end: datetime) -> list[int]:
    """Numbers of those being applied to records of the stretch, whose sums are by old and by new prices so long."""
    rows = _rows_of(ReratingState.APPLYING, start, end)
    return sorted(rows.values_list("number", flat=True))


def list_applied(start: datetime, end: datetime, tenant_ids: Collection[UUID]) -> list[int]:
    """Numbers of those that gave records of these tenants another price: what others were charged is not theirs."""
    rows = _rows_of(ReratingState.APPLIED, start, end).filter(result__has_any_keys=[str(each) for each in tenant_ids])
    found = rows.values_list("number", "result")
    return sorted(number for number, result in found if any(_has_changed(result, each) for each in tenant_ids))


def sum_figures(figures: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Of all tenants together, the money in USD."""
    sums = {name: sum(line[name] for line in figures.values()) for name in FIGURES}
    money = {f"{when}_usd": usd_from_pico(sums[f"{when}_pico_usd"]) for when in ("before", "after")}
    return {"records": sums["records"], "changed": sums["changed"], **money}


def _has_changed(result: dict[str, dict[str, int]], tenant_id: UUID) -> bool:
    return result.get(str(tenant_id), {}).get("changed", 0) > 0


def _rows_of(state: ReratingState, start: datetime, end: datetime) -> QuerySet[Rerating]:
    return Rerating.objects.filter(state=state, start__lt=end, end__gt=start)


def list_since(moment: datetime) -> list[tuple[datetime, datetime]]:
    """The stretches of time that were priced anew since then."""
    return list(Rerating.objects.filter(applied_at__gte=moment).values_list("start", "end"))


def count_applied_reratings() -> int:
    return Rerating.objects.filter(state=ReratingState.APPLIED).count()
