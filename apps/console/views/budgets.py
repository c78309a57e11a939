"""Whether the month will cost more than was meant, and who is told."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.audit.selectors import list_entries_of
from apps.console.access import ConsoleRequest, page, require
from apps.console.finance_forms import BudgetForm
from apps.console.rendering import attempt, render_page
from apps.tenants.matrix import Permission
from apps.tenants.policies import may_set_prices
from apps.tenants.selectors import list_tenants
from apps.usage.models import Budget
from apps.usage.policies.access import may_set_budget
from apps.usage.policies.webhooks import shown_address
from apps.usage.selectors.budgets import BudgetStatus, get_budget, get_budget_status, list_alerts, list_budgets
from apps.usage.services.budgets import create_budget, delete_budget, webhook_key

SHOWN = 100
FULL_PERCENT = 100
NEAR_PERCENT = 80


@page(Permission.SEE_TENANT)
@require_safe
def budgets(request: ConsoleRequest) -> HttpResponseBase:
    moment = now()
    found = [get_budget_status(budget, now=moment) for budget in list_budgets(actor=request.actor)[:SHOWN]]
    may_add = may_set_prices(request.actor) or any(may_set_budget(request.actor, each) for each in request.actor.roles)
    rows = [{"status": status, "level": _level_of(status)} for status in found]
    return render_page(request, "budgets.html", {"rows": rows, "may_add": may_add})


@page(Permission.SET_BUDGETS)
@require_http_methods(["GET", "HEAD", "POST"])
def budget_new(request: ConsoleRequest) -> HttpResponseBase:
    allowed = [tenant.pk for tenant in list_tenants(actor=request.actor) if may_set_budget(request.actor, tenant.pk)]
    form = BudgetForm(
        request.POST or None,
        tenants=list_tenants(actor=request.actor).filter(pk__in=allowed),
        is_for_all=may_set_prices(request.actor),
    )
    created = attempt(form, lambda: create_budget(actor=request.actor, now=now(), **form.facts()))
    if created is None:
        return render_page(request, "budget_new.html", {"form": form})
    messages.success(request, f"{created.name} is watched from now on.")
    return _shown(request, created, key=webhook_key(created) if created.webhook_url else None)


@page(Permission.SEE_TENANT)
@require_safe
def budget(request: ConsoleRequest, budget_id: UUID) -> HttpResponseBase:
    return _shown(request, get_budget(actor=request.actor, budget_id=budget_id), key=None)


@page(Permission.SET_BUDGETS)
@require_POST
def budget_delete(request: ConsoleRequest, budget_id: UUID) -> HttpResponseBase:
    found = get_budget(actor=request.actor, budget_id=budget_id)
    require(may_set_budget(request.actor, found.tenant_id))
    delete_budget(actor=request.actor, budget=found, now=now())
    messages.success(request, f"{found.name} is gone; nobody is told any more.")
    return redirect("console:budgets")


def _shown(request: ConsoleRequest, found: Budget, *, key: str | None) -> HttpResponseBase:
    status = get_budget_status(found, now=now())
    context: dict[str, Any] = {
        "budget": found,
        "webhook": shown_address(found.webhook_url),
        "status": status,
        "level": _level_of(status),
        "alerts": list_alerts(budget=found),
        "webhook_key": key,
        "may_delete": may_set_budget(request.actor, found.tenant_id),
        "events": list_entries_of(subject_type="budget", subject_id=str(found.pk)),
    }
    return render_page(request, "budget.html", context)


def _level_of(status: BudgetStatus) -> tuple[str, str]:
    """A word, and the state that its colour means."""
    if status.spent_percent >= FULL_PERCENT:
        return "spent", "breach"
    if status.forecast_percent >= FULL_PERCENT:
        return "will be exceeded", "warning"
    return ("nearly spent", "warning") if status.spent_percent >= NEAR_PERCENT else ("within", "ok")
