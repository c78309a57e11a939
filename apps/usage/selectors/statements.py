"""The statement of a tenant's month: what it owes, and what that is made of."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Count, Sum

from apps.common.actors import Actor
from apps.tenants.models import Tenant
from apps.tenants.selectors import get_billed_tenant
from apps.usage.models.records import IS_LATECOMER
from apps.usage.policies.checking import LATE
from apps.usage.policies.forecast import Month, month_of
from apps.usage.selectors.records import list_records
from apps.usage.selectors.reports import UsageRow, UsageTotals, report_usage, scope_for, sum_usage
from apps.usage.selectors.reratings import list_applied, list_under_way
from apps.usage.selectors.sums import UsageScope

_CENT = Decimal("0.01")


@dataclass(frozen=True)
class Latecomers:
    """Records that came after the seven days for which a statement waits: they changed one that was final."""

    request_count: int
    cost_usd: Decimal


@dataclass(frozen=True)
class Statement:
    tenant: Tenant
    month: Month
    zone: ZoneInfo
    made_at: datetime
    by_version: list[UsageRow]
    by_day: list[UsageRow]
    totals: UsageTotals
    reratings: list[int]
    reratings_under_way: list[int]
    latecomers: Latecomers

    @property
    def amount_usd(self) -> Decimal:
        """To the cent, a half upwards: the only rounding of the sum."""
        return self.totals.cost_usd.quantize(_CENT, ROUND_HALF_UP)

    @property
    def discount_usd(self) -> Decimal:
        return self.totals.list_usd - self.totals.cost_usd

    @property
    def complete_at(self) -> datetime:
        """Until then late records are awaited."""
        return self.month.end + LATE

    @property
    def is_final(self) -> bool:
        return not self.open_reasons

    @property
    def open_reasons(self) -> list[str]:
        """Why the amount may still change."""
        return list(self._open_reasons())

    def _open_reasons(self) -> Iterator[str]:
        if self.made_at < self.complete_at:
            yield f"late records may come until {self.complete_at.astimezone(self.zone):%Y-%m-%d %H:%M}"
        if waiting := self.totals.unpriced_count:
            yield f"requests without a price yet, which are not in the amount: {waiting:,}"
        for number in self.reratings_under_way:
            yield f"re-rating {number} is being applied: what it has not reached is by the old prices"


def get_statement(*, actor: Actor, tenant_id: UUID, first_day: date, zone: ZoneInfo, now: datetime) -> Statement:
    """The tenant's and of all tenants below it."""
    tenant = get_billed_tenant(actor=actor, tenant_id=tenant_id)
    month = month_of(datetime(first_day.year, first_day.month, 15, tzinfo=zone), zone)
    scope = scope_for(actor=actor, start=month.start, end=month.end, tenant_id=tenant.pk)
    under_way = list_under_way(month.start, month.end)  # asked first: one that ends meanwhile is said, not hidden
    return Statement(
        tenant=tenant,
        month=month,
        zone=zone,
        made_at=now,
        by_version=report_usage(scope=scope, group_by=["model", "version"], zone=zone),
        by_day=report_usage(scope=scope, group_by=["day"], zone=zone),
        totals=sum_usage(scope=scope),
        reratings=list_applied(month.start, month.end, scope.tenant_ids or ()),
        reratings_under_way=under_way,
        latecomers=_latecomers(scope),
    )


def _latecomers(scope: UsageScope) -> Latecomers:
    """`IS_LATECOMER` follows from the time; it is said for the index that holds no others."""
    late = list_records(scope=scope).filter(IS_LATECOMER, received_at__gte=scope.end + LATE).order_by()
    sums = late.aggregate(request_count=Count("record_id"), cost_usd=Sum("cost_usd"))
    return Latecomers(sums["request_count"], sums["cost_usd"] or Decimal())
