"""A table to be exported: columns with kinds, and rows that are made while they are written. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["text", "integer", "number", "money", "unit_price", "flag", "moment", "day"]


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind = "text"


@dataclass(frozen=True)
class Table:
    columns: Sequence[Column]
    rows: Callable[[], Iterator[Sequence[Any]]]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


def kind_of(name: str) -> Kind:
    """By the endings that names have here."""
    if name.endswith("_at"):
        return "moment"
    if name.endswith("_usd"):
        return "money"
    if name.endswith("_ms"):
        return "number"
    if name.startswith("is_"):
        return "flag"
    is_count = name.endswith(("_tokens", "_count")) or name in {"sequence", "status", "attempts", "rerating"}
    return "integer" if is_count else "text"
