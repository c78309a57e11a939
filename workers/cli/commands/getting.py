"""`get` and `events`: lists, once or as they change."""

from collections.abc import Iterator
from typing import Any

import click

from workers.cli.client import Client
from workers.cli.context import Session, complete_things, pass_session, things_of
from workers.cli.errors import INVALID, CLIError
from workers.cli.finding import Named, find_one, find_row, split_names
from workers.cli.kinds import Kind, find_kind
from workers.cli.options import formats, moment_ago
from workers.cli.output import FORMATS, TABLES, ChangingTable, show_content, show_rows, sorted_rows

_MOST_ROWS = 100_000


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="KIND [NAME]...", shell_complete=complete_things)
@formats(FORMATS)
@click.option("-l", "--labels", metavar="NAME=VALUE,...", help="Only nodes with all of these labels.")
@click.option("-f", "--filter", "filters", multiple=True, metavar="FIELD=VALUE", help="Any field that the list shows.")
@click.option("-w", "--watch", is_flag=True, help="Go on, and tell each change as it happens.")
@click.option("--limit", default=_MOST_ROWS, type=click.IntRange(min=1), help="At most so many.")
@click.option("--sort-by", metavar="FIELD", help="By this field of what -o json shows, such as rollout.state.")
@click.option("--no-headers", is_flag=True, help="Without the line of headings.")
@pass_session
def get(session: Session, what: tuple[str, ...], form: str, watch: bool, limit: int, **asked: Any) -> None:
    """Lists things: `get nodes`, `get nodes,replicas`, `get deployment/chat -o yaml`, `get replicas -f state=ready`."""
    named = split_names(what)
    query = _query_of(asked["labels"], asked["filters"])
    if query and any(names for _, names in named):
        raise CLIError("names or filters, not both", INVALID)
    if watch:
        if len(named) > 1 or asked["sort_by"]:
            raise CLIError("one kind is watched at a time, and as it comes", INVALID)
        _watch(session.client, named[0], form, query, has_heading=not asked["no_headers"])
        return
    found = [(kind, list(_rows(session.client, kind, names, query, limit))) for kind, names in named]
    found = [(kind, sorted_rows(rows, asked["sort_by"])) for kind, rows in found]
    _show(found, form, is_one=all(len(names) == 1 for _, names in named), has_heading=not asked["no_headers"])


@click.command()
@click.option("-d", "--deployment", help="Only of this one.", shell_complete=things_of("deployments"), metavar="NAME")
@click.option("-r", "--replica", help="Only of this one.", shell_complete=things_of("replicas"), metavar="ID")
@click.option("--since", metavar="90s|10m|2h|1d", callback=moment_ago, help="Only what came after.")
@click.option("-n", "--limit", default=50, show_default=True, type=click.IntRange(min=1))
@click.option("-w", "--watch", is_flag=True, help="Go on, and tell each event as it happens.")
@formats(FORMATS)
@pass_session
def events(session: Session, limit: int, watch: bool, form: str, **asked: Any) -> None:
    """What has become of replicas, the newest last."""
    kind = find_kind("events")
    query = _events_query(session.client, **asked)
    if watch:
        _watch(session.client, (kind, []), form, query, has_old=bool(asked["since"]))
        return
    rows = list(session.client.rows(kind.path, limit=limit, **query))
    _show([(kind, rows[::-1])], form, is_one=False)


def _events_query(client: Client, *, deployment: str | None, replica: str | None, since: str | None) -> dict[str, str]:
    """What does not exist is said; it has not merely had no events."""
    query = {"at_since": since} if since else {}
    if deployment:
        query["deployment_name"] = find_one(client, (deployment,), ("deployments",))[1]["name"]
    if replica:
        query["replica_id"] = find_one(client, (replica,), ("replicas",))[1]["id"]
    return query


def _rows(client: Client, kind: Kind, names: list[str], query: dict[str, str], limit: int) -> Iterator[dict[str, Any]]:
    if names:
        return (find_row(client, kind, name) for name in names)
    return client.rows(kind.path, limit=limit, **query)


def _show(found: list[tuple[Kind, list[dict[str, Any]]]], form: str, *, is_one: bool, has_heading: bool = True) -> None:
    """One thing by itself, one list, or several under their kinds."""
    if form in TABLES or form == "name":
        for number, (kind, rows) in enumerate(found):
            if number and form in TABLES:
                click.echo()
            show_rows(kind, rows, form, has_heading=has_heading)
    elif len(found) > 1:
        show_content({kind.name: rows for kind, rows in found}, form)
    else:
        show_content(found[0][1][0] if is_one else found[0][1], form)


def _query_of(labels: str | None, filters: tuple[str, ...]) -> dict[str, str]:
    query = {"labels": labels} if labels else {}
    for each in filters:
        name, equals, value = each.partition("=")
        if not equals:
            raise CLIError(f"--filter is FIELD=VALUE, not {each!r}", INVALID)
        query[name] = value
    return query


def _ids_of(client: Client, kind: Kind, names: list[str]) -> dict[str, str]:
    return {"id": ",".join(str(find_row(client, kind, name)["id"]) for name in names)} if names else {}


def _watch(
    client: Client, named: Named, form: str, query: dict[str, str], *, has_old: bool = True, has_heading: bool = True
) -> None:
    """A line for each change; what is gone says so."""
    kind, names = named
    table = ChangingTable(kind, form, has_heading=has_heading)
    for change, row in client.events(kind.path, **query, **_ids_of(client, kind, names)):
        if change == "BOOKMARK":
            has_old = True
        if not has_old:
            continue
        if form in {"json", "yaml"}:
            _tell_change(change, row, form)
        elif change == "BOOKMARK":
            table.show_first()
        else:
            table.note(change, row)


def _tell_change(change: str, row: dict[str, Any], form: str) -> None:
    """A document each, and nothing else: a program reads it."""
    if change != "BOOKMARK":
        show_content({"type": change, "object": row}, form)
        click.echo("---" if form == "yaml" else "", nl=form == "yaml")
