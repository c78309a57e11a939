"""How a budget stands: what is spent this month, and where that will end."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import QuerySet

from apps.common.actors import SYSTEM, Actor
from apps.common.errors import NotFoundError
from apps.tenants.policies import has_every_tenant
from apps.usage.models import Budget, BudgetAlert
from apps.usage.policies.checking import LATE
from apps.usage.policies.forecast import RECENT, Month, forecast_usd, month_of, months_between
from apps.usage.selectors.reports import scope_for, sum_usage
from apps.usage.selectors.reratings import list_since


@dataclass(frozen=True)
class BudgetStatus:
    budget: Budget
    month: Month
    spent_usd: Decimal
    forecast_usd: Decimal

    @property
    def spent_percent(self) -> Decimal:
        return self.spent_usd * 100 / self.budget.amount_usd

    @property
    def forecast_percent(self) -> Decimal:
        return self.forecast_usd * 100 / self.budget.amount_usd


def list_budgets(*, actor: Actor) -> QuerySet[Budget]:
    budgets = Budget.objects.select_related("tenant")
    return budgets if has_every_tenant(actor) else budgets.filter(tenant_id__in=list(actor.roles))


def get_budget(*, actor: Actor, budget_id: UUID) -> Budget:
    budget = list_budgets(actor=actor).filter(pk=budget_id).first()
    if budget is None:
        raise NotFoundError("no such budget")
    return budget


def list_alerts(*, budget: Budget, limit: int = 20) -> list[BudgetAlert]:
    return list(budget.alerts.all()[:limit])


def get_budget_status(budget: Budget, *, now: datetime, month: Month | None = None) -> BudgetStatus:
    """Of the month that it is, unless another is asked for."""
    month = month or month_of(now, ZoneInfo(budget.zone))
    spent = _spent(budget, month.start, month.end)
    expected = forecast_usd(spent_usd=spent, recent_usd=_spent(budget, now - RECENT, now), now=now, month=month)
    return BudgetStatus(budget, month, spent, expected)


def list_moving_months(budget: Budget, *, now: datetime) -> list[Month]:
    """The month that it is, and those whose spend may have changed since they ended: late records came, or prices.

    None that was over before there was the budget.
    """
    stretches = [(now - LATE, now), *list_since(now - LATE)]
    zone = ZoneInfo(budget.zone)
    found = {month for start, end in stretches for month in months_between(start, min(end, now), zone)}
    return sorted((month for month in found if month.end > budget.created_at), key=lambda month: month.start)


def _spent(budget: Budget, start: datetime, end: datetime) -> Decimal:
    scope = scope_for(actor=SYSTEM, start=start, end=end, tenant_id=budget.tenant_id, public_model=budget.public_model)
    return sum_usage(scope=scope).cost_usd
