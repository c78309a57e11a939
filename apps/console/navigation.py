"""The rail: which pages a person has, by role."""

from dataclasses import dataclass, replace
from uuid import UUID

from django.urls import reverse

from apps.common.actors import Actor
from apps.tenants.matrix import Permission, may_somewhere
from apps.tenants.policies import may_create_key, may_set_prices


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
            Item("j", "Alerts", "alert-triangle", "alerts"),
            Item("f", "Fleet", "server", "fleet"),
            Item("r", "Requests", "list-details", "requests"),
            Item("q", "Scheduler", "layers-intersect", "scheduler"),
        ),
    ),
    Group(
        "Serving",
        (
            Item("m", "Models", "box", "models"),
            Item("d", "Deployments", "rocket", "deployments"),
            Item("k", "Rollouts", "git-branch", "rollouts"),
            Item("s", "Routes", "route", "routes"),
            Item("p", "Policy lab", "adjustments-horizontal", "lab"),
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
FINANCE = Group(
    "Money",
    (
        Item("c", "Cost", "chart-bar", "cost"),
        Item("b", "Budgets", "coin", "budgets"),
        Item("v", "Price book", "books", "price_book"),
        Item("n", "Re-rating", "refresh", "reratings"),
        Item("e", "Statements", "file-invoice", "statements"),
        Item("y", "Successful tasks", "circle-check", "outcomes"),
        Item("x", "Exports", "download", "exports"),
        Item("z", "Records", "receipt", "record_health"),
    ),
)
OWN_MONEY = (
    Item("b", "Budgets", "coin", "budgets"),
    Item("e", "Statements", "file-invoice", "statements"),
    Item("y", "Successful tasks", "circle-check", "outcomes"),
    Item("x", "Exports", "download", "exports"),
)
BUILD = (
    Item("h", "Home", "home", "tenant_home"),
    Item("p", "Playground", "message-chatbot", "playground"),
    Item("m", "Models", "box", "tenant_models"),
    Item("k", "Keys", "key", "keys"),
    Item("d", "Batches", "stack-2", "batches"),
    Item("l", "Limits", "gauge", "tenant_limits"),
    Item("t", "Members", "users", "members"),
    Item("g", "Prompts", "eye", "prompts"),
)
SPEND = Group(
    "Spend",
    (
        Item("u", "Usage and cost", "coins", "usage"),
        Item("r", "Requests", "list-details", "requests"),
    ),
)


SETTINGS = Group("Settings", (Item("w", "Users", "users", "users"),))


def groups_for(actor: Actor, *, tenants: list[tuple[UUID, str]], path: str) -> tuple[Group, ...]:
    """What the actor's rail shows; `tenants` are those it belongs to, `path` is the page it is on."""
    groups = (
        OPERATOR if actor.is_operator else (*(_tenant_group(actor, *tenant) for tenant in tenants), _spend_of(actor))
    )
    money = (FINANCE,) if may_set_prices(actor) else ()
    settings = (SETTINGS,) if actor.is_platform_admin else ()
    return tuple(_placed(group, path) for group in (*groups, *money, *settings))


def home_of(actor: Actor) -> str:
    if actor.is_operator:
        return reverse("console:overview")
    if actor.is_finance:
        return reverse("console:cost")
    if actor.roles:
        return reverse("console:tenant_home", args=[min(actor.roles)])
    return reverse("console:account")


def role_line(actor: Actor, tenant_names: list[str]) -> str:
    roles = (
        ["Platform admin"] * actor.is_platform_admin
        + ["Operator"] * actor.is_operator
        + ["Finance"] * actor.is_finance
        + tenant_names
    )
    return " · ".join(roles) or "No role yet"


def _spend_of(actor: Actor) -> Group:
    own = () if may_set_prices(actor) else OWN_MONEY
    audit = (Item("a", "Audit", "history", "audit"),) if may_somewhere(actor, Permission.SEE_AUDIT) else ()
    return replace(SPEND, items=(*SPEND.items, *own, *audit, API_DOCS))


def _tenant_group(actor: Actor, tenant_id: UUID, name: str) -> Group:
    """What asks a gateway does so with a key of its own, so it is for those who may make one."""
    hidden = () if may_create_key(actor, tenant_id) else ("playground", "batches")
    items = [item for item in BUILD if item.name not in hidden]
    return Group(name, tuple(replace(item, url=reverse(f"console:{item.name}", args=[tenant_id])) for item in items))


def _placed(group: Group, path: str) -> Group:
    items = [replace(item, url=item.url or reverse(f"console:{item.name}")) for item in group.items]
    return replace(group, items=tuple(replace(item, is_current=_is_under(path, item)) for item in items))


def _is_under(path: str, item: Item) -> bool:
    return path.startswith(item.url)
