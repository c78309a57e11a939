"""A tenant's own start: what it may call, what it used, and how to begin. And the playground."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase, JsonResponse
from django.urls import reverse
from django.utils.timezone import now
from django.views.decorators.http import require_POST, require_safe

from apps.common.errors import InvalidInputError
from apps.console.access import ConsoleRequest, page, require
from apps.console.policies.measures import measure
from apps.console.policies.periods import Period, period_for, zone_named
from apps.console.policies.snippets import snippets_for
from apps.console.rendering import render_page
from apps.console.usage_query import read_id, read_text
from apps.limits.selectors.limits import list_limits
from apps.limits.selectors.use import LimitUse, list_use
from apps.quotas.selectors import find_policy
from apps.routing.selectors.routes import list_chat_models, list_public_models
from apps.tenants import policies
from apps.tenants.matrix import Permission
from apps.tenants.selectors import get_tenant, list_keys
from apps.tenants.services import mint_playground_key
from apps.usage.selectors.records import find_record_of_request, page_of_records
from apps.usage.selectors.reports import scope_for, sum_usage
from apps.usage.selectors.served import served_of
from apps.usage.selectors.sums import UsageScope

KEY_PLACEHOLDER = "YOUR_KEY"
RECENT_RECORDS = 6
LIMITS_SHOWN = 5
KEYS_SHOWN = 8


@page(Permission.SEE_KEYS)
def tenant_home(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    month = period_for(name="30d", first="", last="", zone=zone_named("UTC"), now=now())
    scope = scope_for(actor=request.actor, tenant_id=tenant.pk, start=month.start, end=month.end)
    models = list_public_models()
    context = {
        "tenant": tenant,
        "may_create_key": policies.may_create_key(request.actor, tenant.pk),
        "policy": find_policy(tenant.pk),
        "totals": sum_usage(scope=scope),
        "health": served_of(scope=_last_day(request, tenant.pk)),
        "limits": _tightest(request, tenant.pk),
        "before": _totals_before(request, tenant.pk, month),
        "records": page_of_records(scope=scope, size=RECENT_RECORDS)[0],
        "active_keys": list_keys(actor=request.actor, tenant_id=tenant.pk).usable(now())[:KEYS_SHOWN],
        "models": models,
        "snippets": snippets_for(gateway_url=settings.GATEWAY_URL, key=KEY_PLACEHOLDER, models=list_chat_models()),
        "gateway_url": settings.GATEWAY_URL,
    }
    return render_page(request, "tenant_home.html", context)


@page(Permission.CREATE_KEYS)
def playground(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    require(policies.may_create_key(request.actor, tenant.pk))
    context = {
        "tenant": tenant,
        "models": list_chat_models(),
        "gateway_url": settings.GATEWAY_URL,
        "snippets": snippets_for(gateway_url=settings.GATEWAY_URL, key=KEY_PLACEHOLDER, models=list_chat_models()),
    }
    return render_page(request, "playground.html", context)


@page(Permission.CREATE_KEYS)
@require_POST
def playground_key(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    require(policies.may_create_key(request.actor, tenant.pk))
    key, text = mint_playground_key(actor=request.actor, tenant=tenant, now=now())
    assert key.expires_at is not None  # noqa: S101 - a database constraint of playground keys
    body = {"key_id": str(key.pk), "secret": text, "expires_at": key.expires_at.timestamp()}
    return JsonResponse(body)


@page(Permission.SEE_TENANT)
@require_safe
def playground_record(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    """204 until the usage record of the request has arrived."""
    get_tenant(actor=request.actor, tenant_id=tenant_id)
    key_id, request_id = read_id(request.GET, "key_id"), read_text(request.GET, "request_id")
    if key_id is None:
        raise InvalidInputError("key_id is missing")
    found = find_record_of_request(actor=request.actor, tenant_id=tenant_id, key_id=key_id, request_id=request_id)
    if found is None:
        return HttpResponse(status=204)
    url = reverse("console:record", args=[found.record_id])
    return JsonResponse({"cost": str(measure(found.cost_usd, "usd")), "url": url})


def _last_day(request: ConsoleRequest, tenant_id: UUID) -> UsageScope:
    moment = now()
    return scope_for(actor=request.actor, tenant_id=tenant_id, start=moment - timedelta(days=1), end=moment)


def _tightest(request: ConsoleRequest, tenant_id: UUID) -> list[LimitUse]:
    """The limits of which the most is used; those of which nobody can say come last."""
    limits = list(list_limits(actor=request.actor, tenant_id=tenant_id))
    found = list_use(limits=limits, tenant_id=tenant_id, now=now())
    return sorted(found, key=lambda use: -1 if use.percent is None else use.percent, reverse=True)[:LIMITS_SHOWN]


def _totals_before(request: ConsoleRequest, tenant_id: UUID, month: Period) -> Any:
    earlier = month.before
    return sum_usage(scope=scope_for(actor=request.actor, tenant_id=tenant_id, start=earlier.start, end=earlier.end))
