"""Who holds a key to this tenant, and how a new one is made. Its text is shown in the answer to that, never again."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_POST

from apps.console.access import ConsoleRequest, page, require
from apps.console.forms import KeyForm, RotateForm
from apps.console.lists import csv_answer, is_csv, list_page, sorted_rows
from apps.console.policies.snippets import api_call, snippets_for
from apps.console.rendering import attempt, render_page, words_of_refusal
from apps.console.usage_query import read_text
from apps.routing.selectors.routes import list_chat_models, list_public_models
from apps.tenants import policies
from apps.tenants.matrix import Permission
from apps.tenants.models import APIKey, Tenant
from apps.tenants.selectors import get_key, get_tenant, list_children, list_keys
from apps.tenants.services import create_key, revoke_key, rotate_key

COLUMNS = {"name": "name", "owner": "owner__username", "created": "id", "expires": "expires_at"}
CSV = {
    "key": lambda key: key.name,
    "prefix": lambda key: f"ty-{key.prefix}",
    "owner": lambda key: key.owner.username if key.owner else "",
    "models": lambda key: " ".join(key.allowed_models),
    "paths": lambda key: " ".join(key.allowed_paths),
    "networks": lambda key: " ".join(key.allowed_networks),
    "created_at": lambda key: key.created_at,
    "expires_at": lambda key: key.expires_at,
    "revoked_at": lambda key: key.revoked_at,
}


@page(Permission.SEE_KEYS)
@require_http_methods(["GET", "HEAD", "POST"])
def keys(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    form = KeyForm(request.POST or None, models=_model_names())
    created = _create(request, tenant, form) if request.method == "POST" else None
    return _render_keys(request, tenant, created=created, form=form if created is None else None)


@page(Permission.CREATE_KEYS)
@require_POST
def key_revoke(request: ConsoleRequest, key_id: UUID) -> HttpResponseBase:
    key = get_key(actor=request.actor, key_id=key_id)
    require(policies.may_revoke_key(request.actor, key.tenant_id, key.owner_id))
    revoke_key(actor=request.actor, key=key, now=now())
    messages.success(request, f"{key.name} is revoked; gateways refuse it within a second or two.")
    return redirect("console:keys", key.tenant_id)


@page(Permission.CREATE_KEYS)
@require_POST
def key_rotate(request: ConsoleRequest, key_id: UUID) -> HttpResponseBase:
    key = get_key(actor=request.actor, key_id=key_id)
    require(policies.may_revoke_key(request.actor, key.tenant_id, key.owner_id))
    form = RotateForm(request.POST)
    made = attempt(form, lambda: rotate_key(actor=request.actor, key=key, now=now(), **form.cleaned_data))
    if made is None:
        messages.error(request, words_of_refusal(form))
        return redirect("console:keys", key.tenant_id)
    return _render_keys(request, key.tenant, created=_shown_once(*made))


def _render_keys(
    request: ConsoleRequest, tenant: Tenant, *, created: dict[str, Any] | None, form: KeyForm | None = None
) -> HttpResponseBase:
    children = list_children(actor=request.actor, tenant_id=tenant.pk)
    search = read_text(request.GET, "q")
    found = list_keys(actor=request.actor, tenant_id=tenant.pk, search=search)
    if is_csv(request.GET):
        return csv_answer("keys", CSV, sorted_rows(found, request.GET, COLUMNS, default="-created"))
    listing = list_page(found, request.GET, COLUMNS, default="-created")
    context = {
        "tenant": tenant,
        "form": form or KeyForm(models=_model_names()),
        "created": created,
        "keys": [key_row(request, key, now()) for key in listing.rows],
        "listing": listing,
        "search": search,
        "children": children,
        "may_create": policies.may_create_key(request.actor, tenant.pk) and not children,
        "api": _create_call(tenant),
    }
    return render_page(request, "keys.html", context)


def _model_names() -> list[str]:
    return [name for name, _ in list_public_models()]


def _create(request: ConsoleRequest, tenant: Tenant, form: KeyForm) -> dict[str, Any] | None:
    require(policies.may_create_key(request.actor, tenant.pk))
    made = attempt(form, lambda: create_key(actor=request.actor, tenant=tenant, **_values_of(request, form, now())))
    if made is None:
        return None
    return _shown_once(*made)


def _shown_once(key: APIKey, text: str) -> dict[str, Any]:
    models = key.allowed_models or list_chat_models()
    snippets = snippets_for(gateway_url=settings.GATEWAY_URL, key=text, models=models)
    return {"key": key, "text": text, "snippets": snippets}


def _values_of(request: ConsoleRequest, form: KeyForm, moment: datetime) -> dict[str, Any]:
    lifetime_s = form.cleaned_data["lifetime_s"]
    return {
        "name": form.cleaned_data["name"],
        "owner_id": request.actor.user_id,
        "allowed_models": form.cleaned_data["models"],
        "allowed_paths": form.cleaned_data["paths"],
        "allowed_networks": form.cleaned_data["networks"],
        "expires_at": moment + timedelta(seconds=lifetime_s) if lifetime_s else None,
        "now": moment,
    }


def _create_call(tenant: Tenant) -> str:
    body = {"tenant_id": str(tenant.pk), "name": "my key"}
    return api_call(web_url=settings.WEB_URL, method="POST", path="/api/v1/api-keys/", body=body)


def key_row(request: ConsoleRequest, key: APIKey, moment: datetime) -> dict[str, Any]:
    word = _state_of(key, moment)
    may_revoke = word in {"active", "disabled"} and policies.may_revoke_key(request.actor, key.tenant_id, key.owner_id)
    rotate_form = RotateForm(auto_id=f"rotate_{key.pk}_%s")
    return {"key": key, "state": word, "may_revoke": may_revoke, "rotate_form": rotate_form}


def _state_of(key: APIKey, moment: datetime) -> str:
    if key.is_usable(moment):
        return "active"
    if key.revoked_at:
        return "revoked"
    return "expired" if key.expires_at and key.expires_at <= moment else "disabled"
