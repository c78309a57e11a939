"""`get` and `events`: lists, once or as they change."""

from collections.abc import Iterator
from typing import Any

import click

from workers.cli.client import Client
from workers.cli.context import Session, complete_things, pass_session
from workers.cli.errors import INVALID, CLIError
from workers.cli.finding import find_row, split_name
from workers.cli.kinds import Kind, find_kind
from workers.cli.output import FORMATS, show_content, show_rows

_MOST_ROWS = 100_000

formats = click.option("-o", "--output", "form", type=click.Choice(FORMATS), default="table", show_default=True)


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="KIND [NAME]...", shell_complete=complete_things)
@formats
@click.option("-l", "--labels", metavar="NAME=VALUE,...", help="Only nodes with all of these labels.")
@click.option("-f", "--filter", "filters", multiple=True, metavar="FIELD=VALUE", help="Any field that the list shows.")
@click.option("-w", "--watch", is_flag=True, help="Go on, and tell each change as it happens.")
@click.option("--limit", default=_MOST_ROWS, type=click.IntRange(min=1), help="At most so many.")
@pass_session
def get(session: Session, what: tuple[str, ...], form: str, watch: bool, limit: int, **asked: Any) -> None:
    """Lists things: `get nodes`, `get deployment/chat -o yaml`, `get replicas -f state=ready,degraded -w`."""
    kind, names = split_name(what)
    query = _query_of(asked["labels"], asked["filters"])
    if watch:
        _watch(session.client, kind, form, query | _only(session.client, kind, names))
    elif names:
        _show_some(session.client, kind, names, form)
    else:
        show_rows(kind, list(session.client.rows(kind.path, limit=limit, **query)), form)


@click.command()
@click.option("-d", "--deployment", help="Only of this one.")
@click.option("-n", "--limit", default=50, show_default=True, type=click.IntRange(min=1))
@click.option("-w", "--watch", is_flag=True, help="Go on, and tell each event as it happens.")
@formats
@pass_session
def events(session: Session, deployment: str | None, limit: int, watch: bool, form: str) -> None:
    """What has become of replicas, the newest last."""
    kind = find_kind("events")
    query = {"deployment_name": deployment} if deployment else {}
    if watch:
        _watch(session.client, kind, form, query, has_old=False)
        return
    rows = list(session.client.rows(kind.path, limit=limit, **query))
    show_rows(kind, rows[::-1], form)


def _show_some(client: Client, kind: Kind, names: list[str], form: str) -> None:
    rows = [find_row(client, kind, name) for name in names]
    if len(rows) == 1 and form in {"json", "yaml"}:
        show_content(rows[0], form)
    else:
        show_rows(kind, rows, form)


def _query_of(labels: str | None, filters: tuple[str, ...]) -> dict[str, str]:
    query = {"labels": labels} if labels else {}
    for each in filters:
        name, equals, value = each.partition("=")
        if not equals:
            raise CLIError(f"--filter is FIELD=VALUE, not {each!r}", INVALID)
        query[name] = value
    return query


def _only(client: Client, kind: Kind, names: list[str]) -> dict[str, str]:
    return {"id": ",".join(str(find_row(client, kind, name)["id"]) for name in names)} if names else {}


def _watch(client: Client, kind: Kind, form: str, query: dict[str, str], *, has_old: bool = True) -> None:
    """A line for each change; what is gone says so."""
    shown = False
    for change, row in _changes(client, kind, query, has_old=has_old):
        if form in {"json", "yaml"}:
            show_content({"type": change, "object": row}, form)
            click.echo("---" if form == "yaml" else "", nl=form == "yaml")
        elif change == "DELETED":
            click.echo(f"gone: {row['id']}")
        else:
            show_rows(kind, [row], form, has_heading=not shown)
            shown = True


def _changes(
    client: Client, kind: Kind, query: dict[str, str], *, has_old: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    is_new = has_old
    for change, row in client.events(kind.path, **query):
        if change == "BOOKMARK":
            is_new = True
        elif is_new:
            yield change, row
