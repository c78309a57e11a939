"""Tables for people, JSON and YAML for programs."""

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
import yaml

from workers.cli.errors import INVALID, CLIError
from workers.cli.kinds import UNKNOWN, Column, Kind, path_of

TABLES = ("table", "wide")
FORMATS = (*TABLES, "json", "yaml", "name")
_GAP = "  "
_LONGEST_CELL = 60
# Of what is watched, names to say what has gone.
_MOST_NAMES = 100_000


def show_rows(kind: Kind, rows: Sequence[dict[str, Any]], form: str, *, has_heading: bool = True) -> None:
    """That there is nothing is said where it is in nobody's way."""
    if form in {"json", "yaml"}:
        show_content(list(rows), form)
    elif form == "name":
        for row in rows:
            click.echo(f"{kind.name}/{name_of(kind, row)}")
    elif rows:
        Table(kind.columns, form, has_heading=has_heading).show(rows)
    else:
        click.echo(f"no {kind.name}", err=True)


def sorted_rows(rows: list[dict[str, Any]], field: str | None) -> list[dict[str, Any]]:
    """What is unknown comes last."""
    if not field:
        return rows
    try:
        values = [path_of(field)(row) for row in rows]
    except KeyError:
        raise CLIError(f"--sort-by: there is no field {field!r}; -o json shows them", INVALID) from None
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    are_numbers = all(value is None or isinstance(value, int | float) for value in values)
    keys = [(value is None, (value or 0) if are_numbers else text) for value, text in zip(values, texts, strict=True)]
    return [rows[index] for index in sorted(range(len(rows)), key=keys.__getitem__)]


def name_of(kind: Kind, row: dict[str, Any]) -> str:
    if kind.named_by == "model:label":
        return f"{row['model_name']}:{row['label']}"
    return str(row.get("full_name") or row.get(kind.named_by) or row["id"])


def show_content(content: Any, form: str) -> None:
    if form == "yaml":
        click.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True).rstrip())
    else:
        click.echo(json.dumps(content, indent=2, ensure_ascii=False))


def show_table(columns: Sequence[Column], rows: Iterable[Any]) -> None:
    Table(columns, "table").show(rows)


class Table:
    """Rows may come in several goes; columns are as wide as any before, and have their headings once."""

    def __init__(self, columns: Sequence[Column], form: str, *, has_heading: bool = True) -> None:
        self._is_cut = form != "wide"
        self._columns = [each for each in columns if form == "wide" or not each.is_wide]
        self._heading = [[each.heading for each in self._columns]] if has_heading else []
        self._widths = [0] * len(self._columns)

    def show(self, rows: Iterable[Any]) -> None:
        cells = [[text_of(each.cell(row), is_cut=self._is_cut) for each in self._columns] for row in rows]
        lines, self._heading = self._heading + cells, []
        for index, width in enumerate(self._widths):
            self._widths[index] = max([width, *(len(line[index]) for line in lines)])
        for line in lines:
            padded = [text.ljust(width) for text, width in zip(line, self._widths, strict=True)]
            click.echo(_fitted(_GAP.join(padded).rstrip(), is_cut=self._is_cut))


class ChangingTable:
    """What is watched: what there is comes as one table, and then a line for each change."""

    def __init__(self, kind: Kind, form: str, *, has_heading: bool) -> None:
        self._kind = kind
        self._form = form
        self._table = Table(kind.columns, form, has_heading=has_heading)
        self._first: list[dict[str, Any]] | None = []
        self._names: dict[str, str] = {}

    def show_first(self) -> None:
        if self._first is not None:
            rows, self._first = self._first, None
            self._show(rows)

    def note(self, change: str, row: dict[str, Any]) -> None:
        if change == "DELETED":
            click.echo(f"gone: {self._kind.name}/{self._names.pop(row['id'], row['id'])}")
            return
        if len(self._names) < _MOST_NAMES:
            self._names[row["id"]] = name_of(self._kind, row)
        if self._first is not None:
            self._first.append(row)
        else:
            self._show([row])

    def _show(self, rows: list[dict[str, Any]]) -> None:
        if self._form in TABLES:
            self._table.show(rows)
        else:
            show_rows(self._kind, rows, self._form)


def text_of(value: Any, *, is_cut: bool = True) -> str:
    """What another wrote stays on its line, and sends no commands to the terminal."""
    if value is None or value == "":
        return UNKNOWN if value is None else ""
    text = _words_of(value)
    text = "".join(each if each.isprintable() else " " for each in text)
    return f"{text[: _LONGEST_CELL - 1]}…" if is_cut and len(text) > _LONGEST_CELL else text


def _words_of(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _fitted(line: str, *, is_cut: bool) -> str:
    """A line of a terminal that is too narrow ends there; a file gets all of it."""
    if not is_cut or not sys.stdout.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return line if len(line) <= width else f"{line[: width - 1]}…"
