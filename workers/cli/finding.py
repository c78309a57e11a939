"""From what a person types to one thing: `deployment/chat`, `deployment chat`, an id, or the beginning of an id."""

from typing import Any
from uuid import UUID

from workers.cli.client import Client
from workers.cli.errors import INVALID, NOT_FOUND, CLIError
from workers.cli.kinds import Kind, find_kind

Row = dict[str, Any]
_SHORTEST_PREFIX = 6
_MOST_LOOKED_AT = 5000


def split_name(words: tuple[str, ...]) -> tuple[Kind, list[str]]:
    """`kind/name`, or the kind and then names."""
    first, *rest = words
    kind, slash, name = first.partition("/")
    return find_kind(kind), ([name, *rest] if slash else list(rest))


def one_of(words: tuple[str, ...]) -> tuple[Kind, str]:
    kind, names = split_name(words)
    if len(names) != 1:
        raise CLIError(f"name one of {kind.name}, such as {kind.name.removesuffix('s')}/NAME", INVALID)
    return kind, names[0]


def find_row(client: Client, kind: Kind, name: str) -> Row:
    rows = _candidates(client, kind, name)
    if not rows:
        raise CLIError(f"no {name!r} among the {kind.name}", NOT_FOUND)
    if len(rows) > 1:
        ids = ", ".join(str(row["id"]) for row in rows[:5])
        raise CLIError(f"{name!r} is more than one of the {kind.name}: {ids}", INVALID)
    return rows[0]


def _candidates(client: Client, kind: Kind, name: str) -> list[Row]:
    if _is_id(name):
        return list(client.rows(kind.path, id=name, limit=2))
    if kind.named_by == "model:label":
        model, _, label = name.partition(":")
        return list(client.rows(kind.path, model_name=model, label=label, limit=2)) if label else []
    if kind.named_by:
        last = name.rpartition("/")[2] if kind.name == "tenants" else name
        rows = list(client.rows(kind.path, limit=20, **{kind.named_by: last}))
        return [row for row in rows if kind.name != "tenants" or name in {row["name"], row["full_name"]}]
    if len(name) < _SHORTEST_PREFIX:
        return []
    return [row for row in client.rows(kind.path, limit=_MOST_LOOKED_AT) if str(row["id"]).startswith(name)]


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
