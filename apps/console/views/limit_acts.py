"""Limits set, changed, raised, reset and removed; blocks; and raises that are asked for and decided."""

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib import messages
from django.forms import Form
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_POST

from apps.common.errors import DomainError
from apps.console import limit_forms as forms
from apps.console.access import ConsoleRequest, operators, page, require
from apps.console.rendering import attempt, sentence
from apps.console.views.limits import auto_id_of, form_key, new_limit_form, render_limits, render_tenant_limits
from apps.limits.models import Limit, RaiseRequest
from apps.limits.policies import may_change, may_set_for
from apps.limits.selectors import limits as selectors
from apps.limits.services import limits as services
from apps.limits.services.raises import ask_for_raise, decide_raise
from apps.tenants.matrix import Permission
from apps.tenants.models import Tenant
from apps.tenants.selectors import get_tenant


@page(operators)
@require_POST
def default_limit_set(request: ConsoleRequest) -> HttpResponseBase:
    form = new_limit_form(request, request.POST)
    limit = attempt(form, lambda: services.set_limit(actor=request.actor, tenant=None, now=now(), **form.cleaned_data))
    if limit is None:
        return render_limits(request, form, {})
    messages.success(request, f"{limit} is on its way to the gateways.")
    return redirect("console:limits")


@page(Permission.MANAGE_TENANT)
@require_POST
def limit_set(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant, form = _managed(request, tenant_id), new_limit_form(request, request.POST)
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
    limit = _changeable(request, limit_id)
    form = forms.LimitFieldsForm(request.POST, auto_id=auto_id_of("change", limit))

    def change() -> object:
        return services.change_limit(actor=request.actor, limit=limit, now=now(), **form.cleaned_data)

    return _changed(request, limit, "change", form, change)


@page(Permission.MANAGE_TENANT)
@require_POST
def limit_reset(request: ConsoleRequest, limit_id: UUID) -> HttpResponseBase:
    limit = _changeable(request, limit_id)
    return _acted(request, limit, lambda: services.reset_limit(actor=request.actor, limit=limit, now=now()))


@page(operators)
@require_POST
def limit_raise(request: ConsoleRequest, limit_id: UUID) -> HttpResponseBase:
    limit, moment = _changeable(request, limit_id), now()
    form = forms.RaiseForm(request.POST, auto_id=auto_id_of("raise", limit))

    def raise_it() -> object:
        until, amount = moment + timedelta(hours=form.cleaned_data["hours"]), form.cleaned_data["amount"]
        return services.raise_limit(actor=request.actor, limit=limit, amount=amount, until=until, now=moment)

    return _changed(request, limit, "raise", form, raise_it)


@page(Permission.MANAGE_TENANT)
@require_POST
def limit_remove(request: ConsoleRequest, limit_id: UUID) -> HttpResponseBase:
    limit = _changeable(request, limit_id)
    return _acted(request, limit, lambda: services.remove_limit(actor=request.actor, limit=limit, now=now()))


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
        return render_tenant_limits(request, tenant, {name: form})
    messages.success(request, message)
    return redirect("console:tenant_limits", tenant.pk)


def _changeable(request: ConsoleRequest, limit_id: UUID) -> Limit:
    limit = selectors.get_limit(actor=request.actor, limit_id=limit_id)
    require(may_change(request.actor, limit.setter, limit.tenant_id))
    return limit


def _changed(
    request: ConsoleRequest, limit: Limit, name: str, form: Form, change: Callable[[], object]
) -> HttpResponseBase:
    """Back to the limit's page, where a refused form stands open in its dialog with what was typed."""
    if attempt(form, change) is not None:
        return _back_with_word(request, limit)
    bound = {form_key(name, limit): form}
    if limit.tenant_id is None:
        return render_limits(request, new_limit_form(request), bound)
    return render_tenant_limits(request, get_tenant(actor=request.actor, tenant_id=limit.tenant_id), bound)


def _acted(request: ConsoleRequest, limit: Limit, act: Callable[[], object]) -> HttpResponseBase:
    try:
        act()
    except DomainError as error:
        messages.error(request, sentence(error.message))
        return _back(limit)
    return _back_with_word(request, limit)


def _back_with_word(request: ConsoleRequest, limit: Limit) -> HttpResponseBase:
    messages.success(request, f"{limit}: done. Gateways follow within two seconds.")
    return _back(limit)


def _back(limit: Limit) -> HttpResponseBase:
    return redirect("console:tenant_limits", limit.tenant_id) if limit.tenant_id else redirect("console:limits")
