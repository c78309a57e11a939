"""Which tenants there are, who belongs to each, and how their requests are treated."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_POST

from apps.audit.selectors import list_entries
from apps.common.errors import DomainError
from apps.console.access import ConsoleRequest, everybody, operators, page, require
from apps.console.forms import MemberForm, PolicyForm, TenantForm
from apps.console.rendering import render_page, show_refusal
from apps.quotas.selectors import find_policy, list_policies
from apps.quotas.services import open_tenant, set_tenant_policy
from apps.tenants import policies
from apps.tenants.models import Tenant
from apps.tenants.selectors import get_member, get_tenant, list_keys, list_members, list_tenants
from apps.tenants.services import invite_member, remove_member

EVENTS_SHOWN = 3


@page(operators)
def tenant_list(request: ConsoleRequest) -> HttpResponseBase:
    search = request.GET.get("q", "").strip()
    tenants = list_tenants(actor=request.actor).filter(name__icontains=search)
    rows = [{"tenant": tenant, "policy": getattr(tenant, "policy", None)} for tenant in tenants]
    return render_page(request, "tenants.html", {"rows": rows, "search": search})


@page(operators)
@require_http_methods(["GET", "POST"])
def tenant_create(request: ConsoleRequest) -> HttpResponseBase:
    form = TenantForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            tenant = open_tenant(actor=request.actor, now=now(), **form.cleaned_data)
        except DomainError as error:
            show_refusal(form, error)
        else:
            messages.success(request, f"Tenant {tenant.name} is open. Next: its members and its first key.")
            return redirect("console:tenant", tenant.pk)
    return render_page(request, "tenant_create.html", {"form": form})


@page(everybody)
def tenant(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    return _render_tenant(request, get_tenant(actor=request.actor, tenant_id=tenant_id))


@page(operators)
@require_http_methods(["GET", "POST"])
def tenant_policy(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    """Posted once it shows what would change; posted again with `confirmed` it is done."""
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    policy = find_policy(tenant.pk)
    form = PolicyForm(request.POST or None, initial=_form_values(policy))
    is_reviewed = "confirmed" in request.POST
    if request.method == "POST" and form.is_valid() and is_reviewed:
        try:
            set_tenant_policy(actor=request.actor, tenant=tenant, now=now(), **form.cleaned_data)
        except DomainError as error:
            show_refusal(form, error)
        else:
            messages.success(request, f"The policy of {tenant.name} is on its way to the gateways.")
            return redirect("console:tenant", tenant.pk)
    changes = _changes(form) if request.method == "POST" and form.is_valid() else None
    return render_page(request, "tenant_policy.html", {"tenant": tenant, "form": form, "changes": changes})


@page(everybody)
@require_POST
def member_add(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    require(policies.may_manage_members(request.actor, tenant.pk))
    form = MemberForm(request.POST)
    if form.is_valid():
        try:
            member = invite_member(actor=request.actor, tenant=tenant, now=now(), **form.cleaned_data)
        except DomainError as error:
            show_refusal(form, error)
        else:
            messages.success(request, f"{member.user} is now a member of {tenant.name}.")
            return redirect("console:tenant", tenant.pk)
    return _render_tenant(request, tenant, form=form)


@page(everybody)
@require_POST
def member_remove(request: ConsoleRequest, tenant_id: UUID, membership_id: UUID) -> HttpResponseBase:
    member = get_member(actor=request.actor, tenant_id=tenant_id, membership_id=membership_id)
    require(policies.may_manage_members(request.actor, tenant_id))
    try:
        remove_member(actor=request.actor, membership=member, now=now())
    except DomainError as error:
        messages.error(request, f"{error.message[:1].upper()}{error.message[1:]}.")
    else:
        messages.success(request, f"{member.user} is no longer a member; the member's keys are revoked.")
    return redirect("console:tenant", tenant_id)


def _render_tenant(request: ConsoleRequest, tenant: Tenant, form: MemberForm | None = None) -> HttpResponseBase:
    context = {
        "tenant": tenant,
        "policy": find_policy(tenant.pk),
        "members": list_members(actor=request.actor, tenant_id=tenant.pk),
        "keys": list_keys(actor=request.actor, tenant_id=tenant.pk),
        "events": list_entries(tenant_id=tenant.pk)[:EVENTS_SHOWN],
        "form": form or MemberForm(),
        "may_manage": policies.may_manage_members(request.actor, tenant.pk),
        "may_see_keys": policies.may_see_keys(request.actor, tenant.pk),
    }
    return render_page(request, "tenant.html", context)


def _form_values(policy: Any) -> dict[str, Any]:
    fields = ("service_class", "slo_profile", "weight", "max_queued_requests")
    return {name: getattr(policy, name) for name in fields} if policy else {}


def _changes(form: PolicyForm) -> list[dict[str, Any]]:
    """Field by field, what it was and what it would be."""
    pairs = [(form[name], form.initial.get(name), form.cleaned_data[name]) for name in form.fields]
    return [{"label": field.label, "was": was, "becomes": becomes} for field, was, becomes in pairs if was != becomes]
