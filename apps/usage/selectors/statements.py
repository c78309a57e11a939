"""The statement of a tenant's month: what it owes, and what that is made of."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.common.actors import Actor
from apps.tenants.models import Tenant
from apps.tenants.selectors import get_billed_tenant
from apps.usage.models import Rerating, ReratingState
from apps.usage.policies.checking import LATE_DAYS
from apps.usage.policies.forecast import Month, month_of
from apps.usage.selectors.reports import UsageRow, UsageTotals, report_usage, scope_for, sum_usage

_CENT = Decimal("0.01")


@dataclass(frozen=True)
class Statement:
    """`is_final` is False while records of the month may still come, or while something in it has no price."""

    tenant: Tenant
    month: Month
    zone: ZoneInfo
    made_at: datetime
    by_version: list[UsageRow]
    by_day: list[UsageRow]
    totals: UsageTotals
    reratings: list[int]

    @property
    def amount_usd(self) -> Decimal:
        """To the cent, a half upwards: the only rounding of the sum."""
        return self.totals.cost_usd.quantize(_CENT, ROUND_HALF_UP)

    @property
    def discount_usd(self) -> Decimal:
        return self.totals.list_usd - self.totals.cost_usd

    @property
    def is_final(self) -> bool:
        return self.month.end + timedelta(days=LATE_DAYS) <= self.made_at and not self.totals.unpriced_count


def get_statement(*, actor: Actor, tenant_id: UUID, first_day: date, zone: ZoneInfo, now: datetime) -> Statement:
    """The tenant's and of all tenants below it."""
    tenant = get_billed_tenant(actor=actor, tenant_id=tenant_id)
    month = month_of(datetime(first_day.year, first_day.month, 15, tzinfo=zone), zone)
    scope = scope_for(actor=actor, start=month.start, end=month.end, tenant_id=tenant.pk)
    applied = Rerating.objects.filter(state=ReratingState.APPLIED, start__lt=month.end, end__gt=month.start)
    return Statement(
        tenant=tenant,
        month=month,
        zone=zone,
        made_at=now,
        by_version=report_usage(scope=scope, group_by=["model", "version"], zone=zone),
        by_day=report_usage(scope=scope, group_by=["day"], zone=zone),
        totals=sum_usage(scope=scope),
        reratings=sorted(applied.values_list("number", flat=True)),
    )
