"""Tables for people, JSON and YAML for programs."""

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
import yaml

from workers.cli.kinds import UNKNOWN, Column, Kind

FORMATS = ("table", "wide", "json", "yaml", "name")
_GAP = "  "
_LONGEST_CELL = 60


def show_rows(kind: Kind, rows: Sequence[dict[str, Any]], form: str, *, has_heading: bool = True) -> None:
    if form in {"json", "yaml"}:
        show_content(list(rows), form)
    elif form == "name":
        for row in rows:
            click.echo(f"{kind.name}/{name_of(kind, row)}")
    else:
        columns = [each for each in kind.columns if form == "wide" or not each.is_wide]
        show_table(columns, rows, is_cut=form != "wide", has_heading=has_heading)


def name_of(kind: Kind, row: dict[str, Any]) -> str:
    if kind.named_by == "model:label":
        return f"{row['model_name']}:{row['label']}"
    return str(row.get("full_name") or row.get(kind.named_by) or row["id"])


def show_content(content: Any, form: str) -> None:
    if form == "yaml":
        click.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True).rstrip())
    else:
        click.echo(json.dumps(content, indent=2, ensure_ascii=False))


def show_table(
    columns: Sequence[Column], rows: Iterable[Any], *, is_cut: bool = True, has_heading: bool = True
) -> None:
    cells = [[text_of(each.cell(row), is_cut=is_cut) for each in columns] for row in rows]
    lines = [[each.heading for each in columns], *cells] if has_heading else cells
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))] if lines else []
    for line in lines:
        padded = [text.ljust(width) for text, width in zip(line, widths, strict=True)]
        click.echo(_fitted(_GAP.join(padded).rstrip(), is_cut=is_cut))


def text_of(value: Any, *, is_cut: bool = True) -> str:
    """What another wrote stays on its line, and sends no commands to the terminal."""
    if value is None or value == "":
        return UNKNOWN if value is None else ""
    text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    text = "".join(each if each.isprintable() else " " for each in text)
    return f"{text[: _LONGEST_CELL - 1]}…" if is_cut and len(text) > _LONGEST_CELL else text


def _fitted(line: str, *, is_cut: bool) -> str:
    """A line of a terminal that is too narrow ends there; a file gets all of it."""
    if not is_cut or not sys.stdout.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return line if len(line) <= width else f"{line[: width - 1]}…"
