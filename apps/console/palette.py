"""What Ctrl-K finds: every page, object and action the actor may reach."""

from typing import Any
from uuid import UUID

from django.urls import reverse

from apps.common.actors import Actor
from apps.console.navigation import groups_for
from apps.deployments.selectors import list_deployments
from apps.fleet.selectors import list_nodes
from apps.routing.selectors.routes import list_routes
from apps.tenants.selectors import list_tenants, name_tenants

PER_KIND = 200


def list_entries(*, actor: Actor) -> list[dict[str, Any]]:
    entries = _pages(actor)
    return entries + (_platform_objects(actor) if actor.is_operator else [])


def _pages(actor: Actor) -> list[dict[str, Any]]:
    tenants = sorted(name_tenants(set(actor.roles)).items())
    groups = groups_for(actor, tenants=tenants, path="")
    return [
        {"label": item.label, "kind": "page", "hint": group.title, "icon": item.icon, "url": item.url}
        for group in groups
        for item in group.items
    ]


def _platform_objects(actor: Actor) -> list[dict[str, Any]]:
    new_tenant = {"label": "New tenant", "kind": "action", "hint": "action", "icon": "plus"}
    entries: list[dict[str, Any]] = [{**new_tenant, "url": reverse("console:tenant_create")}]
    for tenant in list_tenants(actor=actor)[:PER_KIND]:
        entries.append(_entry("tenant", tenant.name, tenant.pk, "building"))
        entries.append(_entry("keys", f"Keys of {tenant.name}", tenant.pk, "key"))
        entries.append(_entry("playground", f"Playground of {tenant.name}", tenant.pk, "message-chatbot"))
    entries += [_entry("node", node.name, node.pk, "server") for node in list_nodes()[:PER_KIND]]
    entries += [_entry("deployment", each.name, each.pk, "rocket") for each in list_deployments()[:PER_KIND]]
    return entries + [_entry("route", route.public_name, route.pk, "route") for route in list_routes()[:PER_KIND]]


def _entry(kind: str, label: str, identity: UUID, icon: str) -> dict[str, Any]:
    return {
        "label": label,
        "kind": kind,
        "hint": kind,
        "icon": icon,
        "url": reverse(f"console:{kind}", args=[identity]),
    }
