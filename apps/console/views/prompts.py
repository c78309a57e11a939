"""Prompts that a tenant keeps: the tenant's choice, and the text of one request for those who may read it."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_POST, require_safe

from apps.console.access import ConsoleRequest, page, require
from apps.console.forms import PromptsForm
from apps.console.policies.prompts import parts_of
from apps.console.policies.snippets import api_call
from apps.console.rendering import attempt, render_page
from apps.telemetry.selectors.prompts import find_choice, get_kept_prompt
from apps.telemetry.services.prompts import forget_prompts_of, keep_prompts, read_prompt
from apps.tenants.matrix import Permission, may
from apps.tenants.models import Tenant
from apps.tenants.selectors import get_tenant


@page(Permission.SEE_TENANT)
@require_safe
def prompts(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    return _show(request, get_tenant(actor=request.actor, tenant_id=tenant_id))


@page(Permission.MANAGE_PROMPTS, is_dangerous=True)
@require_POST
def prompts_keep(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant, form = _managed(request, tenant_id), PromptsForm(request.POST)
    kept = attempt(form, lambda: keep_prompts(actor=request.actor, tenant=tenant, now=now(), **form.cleaned_data))
    if kept is None:
        return _show(request, tenant, form=form)
    messages.success(request, f"Prompts are kept for {kept.days} days; gateways begin within seconds.")
    return redirect("console:prompts", tenant.pk)


@page(Permission.MANAGE_PROMPTS, is_dangerous=True)
@require_POST
def prompts_forget(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant = _managed(request, tenant_id)
    count = forget_prompts_of(actor=request.actor, tenant=tenant, now=now())
    messages.success(request, f"No prompt is kept any more; {count} {'is' if count == 1 else 'are'} deleted.")
    return redirect("console:prompts", tenant.pk)


@page(Permission.READ_PROMPTS)
@require_POST
def record_prompt(request: ConsoleRequest, record_id: UUID) -> HttpResponseBase:
    """A part of the request's page. It is asked for by a press, as who reads is named in the audit."""
    kept = get_kept_prompt(actor=request.actor, record_id=record_id)
    text = read_prompt(actor=request.actor, kept=kept, now=now())
    return render_page(request, "record_prompt.html", {"parts": parts_of(text)})


def _managed(request: ConsoleRequest, tenant_id: UUID) -> Tenant:
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    require(may(request.actor, Permission.MANAGE_PROMPTS, tenant.pk))
    return tenant


def _show(request: ConsoleRequest, tenant: Tenant, form: PromptsForm | None = None) -> HttpResponseBase:
    choice = find_choice(tenant.pk)
    days = choice.days if choice else PromptsForm.base_fields["days"].initial
    context: dict[str, Any] = {
        "tenant": tenant,
        "choice": choice,
        "form": form or PromptsForm(initial={"days": days}),
        "may_manage": may(request.actor, Permission.MANAGE_PROMPTS, tenant.pk),
        "api": api_call(
            web_url=settings.WEB_URL, method="PUT", path=f"/api/v1/tenants/{tenant.pk}/prompts/", body={"days": days}
        ),
    }
    return render_page(request, "prompts.html", context)
