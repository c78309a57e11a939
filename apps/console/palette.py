"""What Ctrl-K finds: every page, object and action the actor may reach."""

from typing import Any
from uuid import UUID

from django.urls import reverse

from apps.common.actors import Actor
from apps.console.navigation import groups_for
from apps.deployments.selectors import list_deployments
from apps.fleet.selectors import list_nodes
from apps.registry.selectors import list_versions
from apps.routing.selectors.routes import list_routes
from apps.tenants.selectors import list_tenants, list_users, name_tenants
from apps.usage.selectors.budgets import list_budgets

PER_KIND = 200


def list_entries(*, actor: Actor, search: str = "") -> list[dict[str, Any]]:
    """`search` is a part of the names of objects: the way to those beyond the first PER_KIND of a kind."""
    entries = _pages(actor) + _budgets(actor, search)
    if actor.is_operator:
        entries += _operators_actions() + _platform_objects(actor, search)
    return entries + (_users(search) if actor.is_platform_admin else [])


def _pages(actor: Actor) -> list[dict[str, Any]]:
    tenants = sorted(name_tenants(set(actor.roles)).items())
    groups = groups_for(actor, tenants=tenants, path="")
    return [
        {"label": item.label, "kind": "page", "hint": group.title, "icon": item.icon, "url": item.url}
        for group in groups
        for item in group.items
    ]


def _operators_actions() -> list[dict[str, Any]]:
    named = {
        "New tenant": "tenant_create",
        "New model": "model_new",
        "New route": "route_new",
        "New price": "price_new",
    }
    allowed = {label: reverse(f"console:{name}") for label, name in named.items()}
    return [
        {"label": label, "kind": "action", "hint": "action", "icon": "plus", "url": url}
        for label, url in allowed.items()
    ]


def _platform_objects(actor: Actor, search: str) -> list[dict[str, Any]]:
    entries = []
    for tenant in list_tenants(actor=actor).filter(name__icontains=search)[:PER_KIND]:
        entries.append(_entry("tenant", tenant.full_name, tenant.pk, "building"))
        entries.append(_entry("keys", f"Keys of {tenant.full_name}", tenant.pk, "key"))
        entries.append(_entry("playground", f"Playground of {tenant.full_name}", tenant.pk, "message-chatbot"))
    nodes = list_nodes().filter(name__icontains=search)[:PER_KIND]
    deployments = list_deployments().filter(name__icontains=search)[:PER_KIND]
    versions = list_versions().filter(model__name__icontains=search)[:PER_KIND]
    routes = list_routes().filter(public_name__icontains=search)[:PER_KIND]
    return [
        *entries,
        *(_entry("node", node.name, node.pk, "server") for node in nodes),
        *(_entry("deployment", each.name, each.pk, "rocket") for each in deployments),
        *(_entry("version", str(version), version.pk, "box") for version in versions),
        *(_entry("route", route.public_name, route.pk, "route") for route in routes),
    ]


def _budgets(actor: Actor, search: str) -> list[dict[str, Any]]:
    found = list_budgets(actor=actor).filter(name__icontains=search)[:PER_KIND]
    return [_entry("budget", budget.name, budget.pk, "coin") for budget in found]


def _users(search: str) -> list[dict[str, Any]]:
    return [_entry("user", user.username, user.pk, "user") for user in list_users(search=search)[:PER_KIND]]


def _entry(kind: str, label: str, identity: UUID, icon: str) -> dict[str, Any]:
    return {
        "label": label,
        "kind": kind,
        "hint": kind,
        "icon": icon,
        "url": reverse(f"console:{kind}", args=[identity]),
    }
