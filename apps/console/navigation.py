"""The rail: which pages a person has, by role. Pure."""

from dataclasses import dataclass, replace

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
            Item("u", "Usage and cost", "coins", "usage"),
            Item("a", "Audit", "history", "audit"),
        ),
    ),
)
TENANT = (
    Group(
        "Build",
        (
            Item("h", "Home", "home", "tenant_home"),
            Item("p", "Playground", "message-chatbot", "playground"),
            Item("k", "Keys", "key", "tenant_keys"),
        ),
    ),
    Group(
        "Spend",
        (
            Item("u", "Usage and cost", "coins", "usage"),
            Item("r", "Requests", "list-details", "requests"),
        ),
    ),
)
FINANCE = (Group("Money", (Item("u", "Cost", "coins", "usage"), Item("r", "Requests", "list-details", "requests"))),)
