"""What a tenant may use and uses now; what operators allow, raise, reset and block."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.forms import Form
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_POST

from apps.common.errors import DomainError
from apps.console import limit_forms as forms
from apps.console.access import ConsoleRequest, operators, page, require
from apps.console.policies.snippets import api_call
from apps.console.rendering import attempt, render_page, sentence
from apps.limits.models import Limit, RaiseRequest, RaiseState
from apps.limits.policies import amount_of, is_uuid, may_change, may_set_for
from apps.limits.selectors import limits as selectors
from apps.limits.selectors.use import LimitUse, list_use
from apps.limits.services import limits as services
from apps.limits.services.raises import ask_for_raise, decide_raise
from apps.tenants.matrix import Permission
from apps.tenants.models import Tenant
from apps.tenants.selectors import get_tenant, list_keys, list_members, name_keys, name_users

EVENTS_SHOWN = 10
REQUESTS_SHOWN = 50
SUBJECTS_OFFERED = 200


@page(Permission.SEE_TENANT)
def tenant_limits(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    return _render_tenant_limits(request, get_tenant(actor=request.actor, tenant_id=tenant_id), {})


@page(operators)
def limits(request: ConsoleRequest) -> HttpResponseBase:
    return _render_limits(request, forms.LimitForm(auto_id="limit_%s", is_operator=True))


@page(operators)
@require_POST
def default_limit_set(request: ConsoleRequest) -> HttpResponseBase:
    form = forms.LimitForm(request.POST, auto_id="limit_%s", is_operator=True)
    limit = attempt(form, lambda: services.set_limit(actor=request.actor, tenant=None, now=now(), **form.cleaned_data))
    if limit is None:
        return _render_limits(request, form)
    messages.success(request, f"{limit} is on its way to the gateways.")
    return redirect("console:limits")


@page(Permission.MANAGE_TENANT)
@require_POST
def limit_set(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant, form = (
        _managed(request, tenant_id),
        forms.LimitForm(request.POST, auto_id="limit_%s", is_operator=request.actor.is_operator),
    )
    limit = attempt(
        form, lambda: services.set_limit(actor=request.actor, tenant=tenant, now=now(), **form.cleaned_data)
    )
    return _done(request, tenant, "limit_form", form, f"{limit} is on its way to the gateways." if limit else "")


@page(Permission.MANAGE_TENANT)
@require_POST
def block_set(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant, form, moment = (
        _managed(request, tenant_id),
        forms.BlockForm(request.POST, auto_id="block_%s", is_operator=request.actor.is_operator),
        now(),
    )

    def block() -> object:
        wanted = {name: form.cleaned_data[name] for name in ("scope", "subject", "reason")}
        until = _until(form, moment)
        return services.block(actor=request.actor, tenant=tenant, until=until, now=moment, **wanted)

    blocked = attempt(form, block)
    return _done(request, tenant, "block_form", form, "Blocked on every gateway within seconds." if blocked else "")


@page(Permission.MANAGE_TENANT)
@require_POST
def raise_ask(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant, moment = _managed(request, tenant_id), now()
    form = forms.RaiseAskForm(request.POST, limits=[], auto_id="raise_%s")

    def ask() -> RaiseRequest:
        limit = selectors.get_limit_of(actor=request.actor, tenant_id=tenant.pk, limit_id=form.cleaned_data["limit_id"])
        wanted = {name: form.cleaned_data[name] for name in ("amount", "reason")}
        until = _until(form, moment)
        return ask_for_raise(actor=request.actor, tenant=tenant, limit=limit, until=until, now=moment, **wanted)

    asked = attempt(form, ask)
    return _done(request, tenant, "raise_form", form, "An operator has been asked." if asked else "")


@page(operators)
@require_POST
def limit_settings_set(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant, form = _managed(request, tenant_id), forms.LimitSettingsForm(request.POST)
    changed = attempt(
        form, lambda: services.set_limit_settings(actor=request.actor, tenant=tenant, now=now(), **form.cleaned_data)
    )
    return _done(request, tenant, "settings_form", form, "The settings are changed." if changed else "")


@page(Permission.MANAGE_TENANT)
@require_POST
def limit_change(request: ConsoleRequest, limit_id: UUID) -> HttpResponseBase:
    form = forms.LimitFieldsForm(request.POST)
    return _change(
        request,
        limit_id,
        form,
        lambda limit: services.change_limit(actor=request.actor, limit=limit, now=now(), **form.cleaned_data),
    )


@page(Permission.MANAGE_TENANT)
@require_POST
def limit_reset(request: ConsoleRequest, limit_id: UUID) -> HttpResponseBase:
    return _change(
        request, limit_id, None, lambda limit: services.reset_limit(actor=request.actor, limit=limit, now=now())
    )


@page(operators)
@require_POST
def limit_raise(request: ConsoleRequest, limit_id: UUID) -> HttpResponseBase:
    form, moment = forms.RaiseForm(request.POST), now()

    def raise_it(limit: Limit) -> object:
        until = moment + timedelta(hours=form.cleaned_data["hours"])
        amount = form.cleaned_data["amount"]
        return services.raise_limit(actor=request.actor, limit=limit, amount=amount, until=until, now=moment)

    return _change(request, limit_id, form, raise_it)


@page(Permission.MANAGE_TENANT)
@require_POST
def limit_remove(request: ConsoleRequest, limit_id: UUID) -> HttpResponseBase:
    return _change(
        request, limit_id, None, lambda limit: services.remove_limit(actor=request.actor, limit=limit, now=now())
    )


@page(Permission.MANAGE_TENANT)
@require_POST
def block_lift(request: ConsoleRequest, block_id: UUID) -> HttpResponseBase:
    block = selectors.get_block(actor=request.actor, block_id=block_id)
    require(may_change(request.actor, block.setter, block.tenant_id))
    services.lift_block(actor=request.actor, block=block, now=now())
    messages.success(request, "The block is lifted.")
    return redirect("console:tenant_limits", block.tenant_id)


@page(operators)
@require_POST
def raise_decide(request: ConsoleRequest, raise_id: UUID) -> HttpResponseBase:
    asked = selectors.get_raise_request(actor=request.actor, request_id=raise_id)
    form = forms.DecisionForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Say whether it is approved.")
        return redirect("console:limits")
    is_approved, answer = form.cleaned_data["decision"] == "approve", form.cleaned_data["answer"]
    try:
        decide_raise(actor=request.actor, request=asked, is_approved=is_approved, answer=answer, now=now())
    except DomainError as error:
        messages.error(request, sentence(error.message))
    else:
        messages.success(request, "The raise holds from now on." if is_approved else "The raise is declined.")
    return redirect("console:limits")


def _managed(request: ConsoleRequest, tenant_id: UUID) -> Tenant:
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    require(may_set_for(request.actor, tenant.pk))
    return tenant


def _until(form: Form, moment: datetime) -> datetime | None:
    hours = form.cleaned_data["hours"]
    return moment + timedelta(hours=hours) if hours else None


def _done(request: ConsoleRequest, tenant: Tenant, name: str, form: Form, message: str) -> HttpResponseBase:
    """Back to the page with what was done, or with the form that says why not."""
    if not message:
        return _render_tenant_limits(request, tenant, {name: form})
    messages.success(request, message)
    return redirect("console:tenant_limits", tenant.pk)


def _change(request: ConsoleRequest, limit_id: UUID, form: Form | None, change: Any) -> HttpResponseBase:
    limit = selectors.get_limit(actor=request.actor, limit_id=limit_id)
    require(may_change(request.actor, limit.setter, limit.tenant_id))
    tenant_id, shown = limit.tenant_id, str(limit)
    if form is not None and not form.is_valid():
        messages.error(
            request, "; ".join(f"{name}: {' '.join(map(str, texts))}" for name, texts in form.errors.items())
        )
    else:
        try:
            change(limit)
        except DomainError as error:
            messages.error(request, sentence(error.message))
        else:
            messages.success(request, f"{shown}: done. Gateways follow within two seconds.")
    return redirect("console:tenant_limits", tenant_id) if tenant_id else redirect("console:limits")


def _render_limits(request: ConsoleRequest, form: Form) -> HttpResponseBase:
    requests = selectors.list_raise_requests(actor=request.actor)
    rows = [_row(request, LimitUse(limit=limit, amount=limit.amount, used=None, ends_at=None)) for limit in _defaults()]
    context = {
        "rows": rows,
        "pending": requests.filter(state=RaiseState.PENDING)[:REQUESTS_SHOWN],
        "decided": requests.exclude(state=RaiseState.PENDING)[:EVENTS_SHOWN],
        "limit_form": form,
        "api": _api_call("/api/v1/default-limits/"),
    }
    return render_page(request, "limits.html", context)


def _defaults() -> list[Limit]:
    return list(selectors.list_default_limits())


def _render_tenant_limits(request: ConsoleRequest, tenant: Tenant, bound: dict[str, Form]) -> HttpResponseBase:
    """`bound` are forms that were sent and refused."""
    found, moment = list(selectors.list_limits(actor=request.actor, tenant_id=tenant.pk)), now()
    rows = [_row(request, use) for use in list_use(limits=found, tenant_id=tenant.pk, now=moment)]
    settings_row = selectors.get_settings(tenant.pk)
    context: dict[str, Any] = {
        "tenant": tenant,
        "rows": rows,
        "names": _names_in(rows),
        "blocks": [
            {"block": block, "may_change": may_change(request.actor, block.setter, tenant.pk)}
            for block in selectors.list_blocks(actor=request.actor, tenant_id=tenant.pk)
        ],
        "requests": selectors.list_raise_requests(actor=request.actor, tenant_id=tenant.pk)[:EVENTS_SHOWN],
        "events": selectors.list_events(actor=request.actor, tenant_id=tenant.pk)[:EVENTS_SHOWN],
        "settings": settings_row,
        "may_set": may_set_for(request.actor, tenant.pk),
        "subjects": _subjects(request, tenant),
        "limit_form": forms.LimitForm(auto_id="limit_%s", is_operator=request.actor.is_operator),
        "block_form": forms.BlockForm(auto_id="block_%s", is_operator=request.actor.is_operator),
        "raise_form": forms.RaiseAskForm(limits=[], auto_id="raise_%s"),
        "settings_form": forms.LimitSettingsForm(
            initial={"time_zone": settings_row.time_zone, "degraded": settings_row.degraded}
        ),
        "api": _api_call(f"/api/v1/tenants/{tenant.pk}/limits/"),
    } | bound
    context["raise_form"].fields["limit_id"].widget.choices = [
        (str(row["limit"].pk), str(row["limit"])) for row in rows
    ]
    return render_page(request, "tenant_limits.html", context)


def _names_in(rows: list[dict[str, Any]]) -> dict[UUID, str]:
    """Of the keys and members that limits name by their ids."""
    ids = {UUID(row["limit"].subject) for row in rows if is_uuid(row["limit"].subject)}
    return name_keys(ids) | name_users(ids)


def _subjects(request: ConsoleRequest, tenant: Tenant) -> list[tuple[UUID, str]]:
    """Ids that a limit may name, with what people call them."""
    keys = list_keys(actor=request.actor, tenant_id=tenant.pk).usable(now())[:SUBJECTS_OFFERED]
    members = list_members(actor=request.actor, tenant_id=tenant.pk)[:SUBJECTS_OFFERED]
    named = [(key.pk, f"key {key}") for key in keys]
    return named + [(member.user_id, f"member {member.user}") for member in members]


def _row(request: ConsoleRequest, use: LimitUse) -> dict[str, Any]:
    limit = use.limit
    return {
        "limit": limit,
        "use": use,
        "amount": f"{amount_of(limit.kind, limit.amount):f}",
        "may_change": may_change(request.actor, limit.setter, limit.tenant_id),
    }


def _api_call(path: str) -> str:
    body = {"scope": "end_user", "subject": "*", "kind": "tokens_per_day", "amount": "100000", "soft_percent": 80}
    return api_call(web_url=settings.WEB_URL, method="POST", path=path, body=body)
