"""What a tenant may ask for: models with their prices and how they answer, and the batches it has handed in."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponseBase
from django.utils.timezone import now
from django.views.decorators.http import require_safe

from apps.common.actors import Actor
from apps.console.access import ConsoleRequest, page, require
from apps.console.policies.snippets import batch_line, batch_python, snippets_for
from apps.console.rendering import render_page
from apps.console.selectors.offered import GENERATE, Offer, list_offers
from apps.console.usage_query import read_text
from apps.console.views.home import KEY_PLACEHOLDER
from apps.routing.selectors.routes import list_chat_models
from apps.tenants import policies
from apps.tenants.matrix import Permission
from apps.tenants.models import Tenant
from apps.tenants.selectors import get_tenant
from apps.usage.selectors.reports import scope_for
from apps.usage.selectors.served import NOTHING, served_by_model

DAY = timedelta(days=1)


@page(Permission.SEE_KEYS)
@require_safe
def tenant_models(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    search, asked = read_text(request.GET, "q"), read_text(request.GET, "model")
    offers = [offer for offer in list_offers(tenant=tenant, now=now()) if search.lower() in offer.name.lower()]
    chosen = next((offer for offer in offers if offer.name == asked), offers[0] if offers else None)
    context = {
        "tenant": tenant,
        "search": search,
        "rows": _rows(request.actor, tenant, offers),
        "chosen": chosen,
        "snippets": _snippets(chosen),
        "gateway_url": settings.GATEWAY_URL,
        "may_create_key": policies.may_create_key(request.actor, tenant.pk),
    }
    return render_page(request, "tenant_models.html", context)


@page(Permission.CREATE_KEYS)
@require_safe
def batches(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    """Gateways keep them; the reader's browser asks for them there."""
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    require(policies.may_create_key(request.actor, tenant.pk))
    model = next(iter(list_chat_models()), "MODEL")
    context = {
        "tenant": tenant,
        "gateway_url": settings.GATEWAY_URL,
        "line": batch_line(model=model),
        "python": batch_python(gateway_url=settings.GATEWAY_URL, key=KEY_PLACEHOLDER),
    }
    return render_page(request, "batches.html", context)


def _rows(actor: Actor, tenant: Tenant, offers: list[Offer]) -> list[dict[str, Any]]:
    """Each with how it answered in the last day."""
    moment = now()
    scope = scope_for(actor=actor, tenant_id=tenant.pk, start=moment - DAY, end=moment)
    served = served_by_model(scope=scope)
    return [{"offer": offer, "served": served.get(offer.name, NOTHING)} for offer in offers]


def _snippets(chosen: Offer | None) -> dict[str, str]:
    models, task = ([chosen.name], chosen.task) if chosen else ([], GENERATE)
    return snippets_for(gateway_url=settings.GATEWAY_URL, key=KEY_PLACEHOLDER, models=models, task=task)
