"""The rail: which pages a person has, by role."""

from dataclasses import dataclass, replace
from uuid import UUID

from django.urls import reverse

from apps.common.actors import Actor


@dataclass(frozen=True)
class Item:
    """`key` follows `g` on the keyboard; `name` is the URL's name in this app."""

    key: str
    label: str
    icon: str
    name: str
    url: str = ""
    is_current: bool = False


@dataclass(frozen=True)
class Group:
    title: str
    items: tuple[Item, ...]


API_DOCS = Item("i", "REST API", "code", "docs", url="/api/docs/")
OPERATOR = (
    Group(
        "Now",
        (
            Item("o", "Overview", "gauge", "overview"),
            Item("f", "Fleet", "server", "fleet"),
            Item("r", "Requests", "list-details", "requests"),
        ),
    ),
    Group(
        "Serving",
        (
            Item("m", "Models", "box", "models"),
            Item("d", "Deployments", "rocket", "deployments"),
            Item("s", "Routes", "route", "routes"),
        ),
    ),
    Group(
        "Customers",
        (
            Item("t", "Tenants", "building", "tenants"),
            Item("l", "Limits", "gauge", "limits"),
            Item("u", "Usage and cost", "coins", "usage"),
            Item("a", "Audit", "history", "audit"),
            API_DOCS,
        ),
    ),
)
BUILD = (
    Item("h", "Home", "home", "tenant_home"),
    Item("p", "Playground", "message-chatbot", "playground"),
    Item("k", "Keys", "key", "keys"),
    Item("l", "Limits", "gauge", "tenant_limits"),
    Item("t", "Members", "users", "tenant"),
)
SPEND = Group(
    "Spend",
    (
        Item("u", "Usage and cost", "coins", "usage"),
        Item("r", "Requests", "list-details", "requests"),
        API_DOCS,
    ),
)


def groups_for(actor: Actor, *, tenants: list[tuple[UUID, str]], path: str) -> tuple[Group, ...]:
    """What the actor's rail shows; `tenants` are those it belongs to, `path` is the page it is on."""
    groups = OPERATOR if actor.is_operator else (*(_tenant_group(*tenant) for tenant in tenants), SPEND)
    return tuple(_placed(group, path) for group in groups)


def home_of(actor: Actor) -> str:
    if actor.is_operator:
        return reverse("console:overview")
    if actor.roles:
        return reverse("console:tenant_home", args=[min(actor.roles)])
    return reverse("console:usage")


def role_line(actor: Actor, tenant_names: list[str]) -> str:
    roles = ["Operator"] * actor.is_operator + ["Finance"] * actor.is_finance + tenant_names
    return " · ".join(roles) or "No role yet"


def _tenant_group(tenant_id: UUID, name: str) -> Group:
    return Group(name, tuple(replace(item, url=reverse(f"console:{item.name}", args=[tenant_id])) for item in BUILD))


def _placed(group: Group, path: str) -> Group:
    items = [replace(item, url=item.url or reverse(f"console:{item.name}")) for item in group.items]
    return replace(group, items=tuple(replace(item, is_current=_is_under(path, item)) for item in items))


def _is_under(path: str, item: Item) -> bool:
    return path == item.url if item.name == "tenant" else path.startswith(item.url)
