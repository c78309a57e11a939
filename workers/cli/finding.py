"""From what a person types to things: `deployment/chat`, `deployment chat`, an id, or the beginning of an id.

Where only few kinds can be meant, as of `drain`, a name does alone.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from workers.cli.client import Client
from workers.cli.errors import INVALID, NOT_FOUND, CLIError
from workers.cli.kinds import Kind, find_kind, is_kind
from workers.cli.suggesting import suggestion

Row = dict[str, Any]
Named = tuple[Kind, list[str]]
_SHORTEST_PREFIX = 6
_MOST_LOOKED_AT = 5000
_MOST_SUGGESTED_FROM = 500
_VERSION_NAME = "model:label"


def split_names(words: Sequence[str]) -> list[Named]:
    """`nodes`, `nodes,replicas`, `nodes n1 n2`, `nodes/n1 deployment/chat`: each kind with the names of it."""
    found: list[Named] = []
    for word in words:
        kind_word, slash, name = word.partition("/")
        if slash and (not found or is_kind(kind_word)):
            found.append((find_kind(kind_word), [name]))
        elif found:
            found[-1][1].append(word)
        else:
            found.extend((find_kind(each), []) for each in word.split(","))
    if len(found) > 1 and any(len(names) != 1 for _, names in found) and any(names for _, names in found):
        raise CLIError("several kinds are written KIND/NAME KIND/NAME, or KIND,KIND without names", INVALID)
    return found


def one_of(words: Sequence[str]) -> tuple[Kind, str]:
    named = [(kind, name) for kind, names in split_names(words) for name in names]
    if len(named) != 1:
        kind = split_names(words)[0][0]
        raise CLIError(f"name one of {kind.name}, such as {kind.name.removesuffix('s')}/NAME", INVALID)
    return named[0]


def find_one(client: Client, words: Sequence[str], kinds: Sequence[str]) -> tuple[Kind, Row]:
    """`kinds` are those that can be meant."""
    if len(words) == 1 and "/" not in words[0] and not is_kind(words[0]):
        return _find_among(client, words[0], kinds)
    kind, name = one_of(words)
    if kind.name not in kinds:
        raise CLIError(f"this is for {' and '.join(kinds)}, not for {kind.name}", INVALID)
    return kind, find_row(client, kind, name)


def find_row(client: Client, kind: Kind, name: str) -> Row:
    rows = [(kind, row) for row in _candidates(client, kind, name)]
    return _only(client, [kind], name, rows)[1]


def _find_among(client: Client, name: str, kinds: Sequence[str]) -> tuple[Kind, Row]:
    meant = [find_kind(each) for each in kinds]
    rows = [(kind, row) for kind in meant for row in _candidates(client, kind, name)]
    return _only(client, meant, name, rows)


def _only(client: Client, kinds: Sequence[Kind], name: str, rows: list[tuple[Kind, Row]]) -> tuple[Kind, Row]:
    among = " and ".join(kind.name for kind in kinds)
    if not rows:
        raise CLIError(f"no {name!r} among the {among}{suggestion(name, _names(client, kinds))}", NOT_FOUND)
    if len(rows) > 1:
        ids = ", ".join(f"{kind.name}/{row['id']}" for kind, row in rows[:5])
        raise CLIError(f"{name!r} is more than one of the {among}: {ids}", INVALID)
    return rows[0]


def _names(client: Client, kinds: Sequence[Kind]) -> list[str]:
    """The newest of them; a name that is misspelt is seldom an old one's."""
    fields = [(kind, "full_name" if kind.name == "tenants" else kind.named_by) for kind in kinds]
    return [
        str(row[field])
        for kind, field in fields
        if field and field != _VERSION_NAME
        for row in client.rows(kind.path, limit=_MOST_SUGGESTED_FROM)
        if row.get(field)
    ]


def _candidates(client: Client, kind: Kind, name: str) -> list[Row]:
    if _is_id(name):
        return list(client.rows(kind.path, id=name, limit=2))
    if kind.named_by == _VERSION_NAME:
        model, _, label = name.partition(":")
        return list(client.rows(kind.path, model_name=model, label=label, limit=2)) if label else []
    if kind.named_by:
        last = name.rpartition("/")[2] if kind.name == "tenants" else name
        rows = list(client.rows(kind.path, limit=20, **{kind.named_by: last}))
        return [row for row in rows if name in {row[kind.named_by], row.get("full_name")}]
    if len(name) < _SHORTEST_PREFIX:
        return []
    return [row for row in client.rows(kind.path, limit=_MOST_LOOKED_AT) if str(row["id"]).startswith(name)]


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
