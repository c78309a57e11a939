"""Which tenants there are, who belongs to each, and how their requests are treated."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_POST

from apps.audit.selectors import list_entries
from apps.console.access import ConsoleRequest, operators, page, require
from apps.console.forms import MemberForm, PolicyForm, TenantForm
from apps.console.lists import csv_answer, is_csv, list_page, sorted_rows
from apps.console.policies.periods import period_for, zone_named
from apps.console.policies.snippets import api_call, apply_line
from apps.console.rendering import attempt, render_page
from apps.console.usage_query import read_text
from apps.console.views.keys import key_row
from apps.quotas.models import TenantPolicy
from apps.quotas.selectors import find_policy, list_policies, list_service_classes
from apps.quotas.services import open_tenant, set_tenant_policy
from apps.tenants import policies
from apps.tenants.matrix import Permission
from apps.tenants.models import Tenant
from apps.tenants.selectors import count_usable_keys, get_tenant, list_billed_tenants, list_keys, list_members
from apps.tenants.services import invite_member
from apps.usage.selectors.reports import UsageTotals, report_usage, scope_for

NEW_TENANT = {
    "title": "New tenant",
    "question": "Who is it, and how well should it be served?",
    "button": "Open the tenant",
    "list_url": "console:tenants",
    "list_label": "Tenants",
}
COLUMNS = {
    "name": "name",
    "class": "policy__service_class__rank",
    "slo": "policy__slo_profile__ttft_ms",
    "weight": "policy__weight",
    "since": "created_at",
}
CSV = {
    "tenant": lambda row: row["tenant"].full_name,
    "service_class": lambda row: row["policy"].service_class.name if row["policy"] else "",
    "slo_profile": lambda row: row["policy"].slo_profile.name if row["policy"] else "",
    "weight": lambda row: row["policy"].weight if row["policy"] else "",
    "keys": lambda row: row["key_count"],
    "requests_30_days": lambda row: row["usage"].request_count,
    "input_tokens_30_days": lambda row: row["usage"].input_tokens,
    "output_tokens_30_days": lambda row: row["usage"].output_tokens,
    "cost_usd_30_days": lambda row: row["usage"].cost_usd,
}
EVENTS_SHOWN = 3
KEYS_SHOWN = 8
MEMBERS_SHOWN = 8


@page(operators)
def tenant_list(request: ConsoleRequest) -> HttpResponseBase:
    search, shows_removed = read_text(request.GET, "q"), "removed" in request.GET
    service_class = read_text(request.GET, "class")
    found = list_billed_tenants(actor=request.actor).filter(
        name__icontains=search, removed_at__isnull=not shows_removed
    )
    if service_class:
        found = found.filter(policy__service_class__name=service_class)
    if is_csv(request.GET):
        rows = _tenant_rows(request, list(sorted_rows(found, request.GET, COLUMNS, default="name")), now())
        return csv_answer("tenants", CSV, rows)
    listing = list_page(found, request.GET, COLUMNS, default="name")
    context = {
        "rows": _tenant_rows(request, listing.rows, now()),
        "count": found.count(),
        "listing": listing,
        "service_class": service_class,
        "classes": list_service_classes(),
        "search": search,
        "shows_removed": shows_removed,
    }
    return render_page(request, "tenants.html", context)


@page(operators)
@require_http_methods(["GET", "HEAD", "POST"])
def tenant_create(request: ConsoleRequest) -> HttpResponseBase:
    form = TenantForm(request.POST or None)
    tenant = attempt(form, lambda: open_tenant(actor=request.actor, now=now(), **form.cleaned_data))
    if tenant is not None:
        messages.success(request, f"Tenant {tenant.name} is open. Next: its members and its first key.")
        return redirect("console:tenant", tenant.pk)
    body = {"name": "acme", "service_class": "standard", "slo_profile": "standard"}
    api = api_call(web_url=settings.WEB_URL, method="POST", path="/api/v1/tenants/", body=body)
    cli = apply_line({"kind": "Tenant", **body})
    return render_page(request, "tenant_create.html", {**NEW_TENANT, "form": form, "api": api, "cli": cli})


@page(Permission.SEE_TENANT)
def tenant(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    return _render_tenant(request, get_tenant(actor=request.actor, tenant_id=tenant_id))


@page(operators)
@require_http_methods(["GET", "HEAD", "POST"])
def tenant_policy(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    """Posted once it shows what would change; posted again with `confirmed` it is done."""
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    form = PolicyForm(request.POST or None, initial=_form_values(find_policy(tenant.pk)))
    if "confirmed" in request.POST and attempt(form, lambda: _set_policy(request, tenant, form)) is not None:
        messages.success(request, f"The policy of {tenant.name} is on its way to the gateways.")
        return redirect("console:tenant", tenant.pk)
    changes = _changes(form) if form.is_valid() else None
    context = {"tenant": tenant, "form": form, "changes": changes, "api": _policy_call(tenant, form)}
    context["cli"] = apply_line({"kind": "Tenant", "name": tenant.full_name, **_policy_body(form)})
    return render_page(request, "tenant_policy.html", context)


@page(Permission.MANAGE_MEMBERS, is_dangerous=True)
@require_POST
def member_add(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    require(policies.may_manage_members(request.actor, tenant.pk))
    form = MemberForm(request.POST)
    member = attempt(form, lambda: invite_member(actor=request.actor, tenant=tenant, now=now(), **form.cleaned_data))
    if member is not None:
        messages.success(request, f"{member.user} is now a member of {tenant.name}.")
        return redirect("console:tenant", tenant.pk)
    return _render_tenant(request, tenant, form=form)


def _render_tenant(request: ConsoleRequest, tenant: Tenant, form: MemberForm | None = None) -> HttpResponseBase:
    context = {
        "tenant": tenant,
        "policy": find_policy(tenant.pk),
        "members": list_members(actor=request.actor, tenant_id=tenant.pk)[:MEMBERS_SHOWN],
        "keys": _key_rows(request, tenant),
        "events": list_entries(tenant_id=tenant.pk)[:EVENTS_SHOWN],
        "form": form or MemberForm(),
        "may_manage": policies.may_manage_members(request.actor, tenant.pk),
        "may_create_key": policies.may_create_key(request.actor, tenant.pk),
        "may_see_keys": policies.may_see_keys(request.actor, tenant.pk),
        "may_remove": policies.may_remove_tenant(request.actor, tenant.pk, tenant.parent_id),
    }
    return render_page(request, "tenant.html", context)


def _set_policy(request: ConsoleRequest, tenant: Tenant, form: PolicyForm) -> TenantPolicy:
    return set_tenant_policy(actor=request.actor, tenant=tenant, now=now(), **form.cleaned_data)


def _key_rows(request: ConsoleRequest, tenant: Tenant) -> list[dict[str, Any]]:
    if not policies.may_see_keys(request.actor, tenant.pk):
        return []
    return [key_row(request, key, now()) for key in list_keys(actor=request.actor, tenant_id=tenant.pk)[:KEYS_SHOWN]]


def _tenant_rows(request: ConsoleRequest, tenants: list[Tenant], moment: datetime) -> list[dict[str, Any]]:
    """Each with its policy, its keys, and what it used in the last 30 days."""
    month = period_for(name="30d", first="", last="", zone=zone_named("UTC"), now=moment)
    scope = scope_for(actor=request.actor, start=month.start, end=month.end)
    usage = {row.ids["tenant"]: row for row in report_usage(scope=scope, group_by=["tenant"], zone=month.zone)}
    rules = {policy.tenant_id: policy for policy in list_policies()}
    keys = count_usable_keys(now=moment)
    return [
        {
            "tenant": tenant,
            "policy": rules.get(tenant.pk),
            "key_count": keys.get(tenant.pk, 0),
            "usage": usage.get(str(tenant.pk), UsageTotals()),
        }
        for tenant in tenants
    ]


def _form_values(policy: Any) -> dict[str, Any]:
    fields = ("service_class", "slo_profile", "weight", "max_queued_requests")
    return {name: getattr(policy, name) for name in fields} if policy else {}


def _policy_call(tenant: Tenant, form: PolicyForm) -> str:
    """The REST call of what the form says now."""
    path = f"/api/v1/tenants/{tenant.pk}/policy/"
    return api_call(web_url=settings.WEB_URL, method="PUT", path=path, body=_policy_body(form))


def _policy_body(form: PolicyForm) -> dict[str, Any]:
    chosen = getattr(form, "cleaned_data", None) or form.initial
    return {name: getattr(value, "name", value) for name, value in chosen.items()}


def _changes(form: PolicyForm) -> list[dict[str, Any]]:
    """Field by field, what it was and what it would be."""
    pairs = [(form[name], form.initial.get(name), form.cleaned_data[name]) for name in form.fields]
    return [{"label": field.label, "was": was, "becomes": becomes} for field, was, becomes in pairs if was != becomes]
