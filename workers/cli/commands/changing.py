"""Commands that change one thing: scale, drain, cordon, label, restart, delete."""

import time
from collections.abc import Callable
from typing import Any

import click

from workers.cli.client import Client
from workers.cli.context import Completer, Session, complete_things, pass_session, things_of
from workers.cli.errors import CONFLICT, INVALID, TIMED_OUT, UNREACHABLE, CLIError
from workers.cli.finding import find_one, find_row, one_of
from workers.cli.kinds import Kind
from workers.cli.options import dry_run, waiting
from workers.cli.output import text_of

_POLL_S = 1.0


def thing(metavar: str, complete: Completer) -> Callable[[Any], Any]:
    return click.argument("what", nargs=-1, required=True, metavar=metavar, shell_complete=complete)


@click.command()
@thing("[deployment/]NAME", things_of("deployments"))
@click.option("-r", "--replicas", "count", type=click.IntRange(min=0), required=True)
@click.option("--current", type=click.IntRange(min=0), help="Only if it is this many now.")
@dry_run
@waiting
@pass_session
def scale(session: Session, what: tuple[str, ...], count: int, current: int | None, **options: Any) -> None:
    """Sets how many replicas a deployment has: `scale deployment/chat --replicas 3`."""
    kind, row = find_one(session.client, what, ("deployments",))
    path = f"{kind.path}{row['id']}/"
    row, tag = session.client.tagged(path)
    if current is not None and row["replica_count"] != current:
        raise CLIError(f"it has {row['replica_count']} replicas, not {current}", CONFLICT)
    write(session.client, "PATCH", path, {"replica_count": count}, is_dry=options["dry_run"], tag=tag)
    say(options, f"{row['name']}: {row['replica_count']} → {count} replicas")
    wait_until(options, lambda: session.client.get(path)["ready_count"] == count, f"{count} replicas are ready")


@click.command()
@thing("[node/]NAME | replica/ID", things_of("nodes", "replicas"))
@click.option("--undo", is_flag=True, help="Take it back.")
@dry_run
@waiting
@pass_session
def drain(session: Session, what: tuple[str, ...], undo: bool, **options: Any) -> None:
    """A node's or a replica's requests end before it does: `drain n1`, `drain replica 01a2…`."""
    kind, row = find_one(session.client, what, ("nodes", "replicas"))
    if kind.name == "nodes":
        write(session.client, "PATCH", f"nodes/{row['id']}/", {"is_draining": not undo}, is_dry=options["dry_run"])
    else:
        path = f"replicas/{row['id']}/drain/"
        write(session.client, "DELETE" if undo else "POST", path, is_dry=options["dry_run"])
    say(options, f"{kind.name}/{row.get('name', row['id'])} {'drains no more' if undo else 'drains'}")
    if not undo:
        wait_until(options, lambda: _is_empty(session.client, kind, row), "it is empty")


@click.command()
@thing("[node/]NAME", things_of("nodes"))
@dry_run
@pass_session
def cordon(session: Session, what: tuple[str, ...], **options: Any) -> None:
    """A node gets no new replicas."""
    _set_node(session.client, what, {"is_cordoned": True}, "is cordoned", options)


@click.command()
@thing("[node/]NAME", things_of("nodes"))
@dry_run
@pass_session
def uncordon(session: Session, what: tuple[str, ...], **options: Any) -> None:
    """A node gets replicas again."""
    _set_node(session.client, what, {"is_cordoned": False}, "is not cordoned", options)


@click.command()
@click.argument("node", shell_complete=things_of("nodes"))
@click.argument("changes", nargs=-1, required=True, metavar="NAME=VALUE|NAME-...")
@dry_run
@pass_session
def label(session: Session, node: str, changes: tuple[str, ...], **options: Any) -> None:
    """Labels of a node: `label n1 zone=a old-`."""
    _, row = find_one(session.client, (node,), ("nodes",))
    row, tag = session.client.tagged(f"nodes/{row['id']}/")
    labels = dict(row["labels"])
    for change in changes:
        name, equals, value = change.partition("=")
        if equals:
            labels[name] = value
        elif change.endswith("-"):
            labels.pop(change[:-1], None)
        else:
            raise CLIError(f"write NAME=VALUE, or NAME- to take it off; not {change!r}", INVALID)
    write(session.client, "PATCH", f"nodes/{row['id']}/", {"labels": labels}, is_dry=options["dry_run"], tag=tag)
    say(options, f"nodes/{row['name']}: {', '.join(f'{name}={value}' for name, value in sorted(labels.items()))}")


@click.command()
@thing("[replica/]ID", things_of("replicas"))
@dry_run
@pass_session
def restart(session: Session, what: tuple[str, ...], **options: Any) -> None:
    """A fresh process for a replica."""
    _, row = find_one(session.client, what, ("replicas",))
    write(session.client, "POST", f"replicas/{row['id']}/restart/", is_dry=options["dry_run"])
    say(options, f"replicas/{row['id']} is restarted")


@click.command()
@thing("KIND NAME", complete_things)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@dry_run
@pass_session
def delete(session: Session, what: tuple[str, ...], yes: bool, **options: Any) -> None:
    """Removes one thing for good."""
    kind, name = one_of(what)
    row = find_row(session.client, kind, name)
    if not yes and not options["dry_run"]:
        click.confirm(f"Remove {kind.name}/{name} for good?", abort=True)
    write(session.client, "DELETE", f"{kind.path}{row['id']}/", is_dry=options["dry_run"])
    say(options, f"{kind.name}/{name} is gone")


def _set_node(
    client: Client, words: tuple[str, ...], change: dict[str, bool], said: str, options: dict[str, Any]
) -> None:
    _, row = find_one(client, words, ("nodes",))
    write(client, "PATCH", f"nodes/{row['id']}/", change, is_dry=options["dry_run"])
    say(options, f"nodes/{row['name']} {said}")


def write(client: Client, method: str, path: str, body: Any = None, *, is_dry: bool, tag: str = "") -> None:
    headers = {"If-Match": tag} if tag else {}
    answer = client.write(method, path, body, headers=headers, **({"dry_run": "1"} if is_dry else {}))
    if is_dry:
        for each in answer["diff"]:
            if each["field"]:
                click.echo(f"  {each['field']}: {text_of(each['from'])} → {text_of(each['to'])}")


def say(options: dict[str, Any], text: str) -> None:
    click.echo(f"{text}{' (dry run: nothing was changed)' if options['dry_run'] else ''}")


def wait_until(options: dict[str, Any], is_so: Callable[[], bool], goal: str) -> None:
    if options["wait_s"] is None or options.get("dry_run"):
        return
    deadline = time.monotonic() + options["wait_s"]
    while not _holds(is_so, deadline):
        if time.monotonic() >= deadline:
            raise CLIError(f"after {options['wait_s']:g} s it is not yet so that {goal}", TIMED_OUT)
        time.sleep(_POLL_S)
    click.echo(goal)


def _holds(is_so: Callable[[], bool], deadline: float) -> bool:
    """A control plane that is away for a moment is asked again."""
    try:
        return is_so()
    except CLIError as error:
        if error.exit_code != UNREACHABLE or time.monotonic() >= deadline:
            raise
        return False


def _is_empty(client: Client, kind: Kind, row: dict[str, Any]) -> bool:
    query = {"node_id": row["id"]} if kind.name == "nodes" else {"id": row["id"]}
    return not list(client.rows("replicas/", limit=1, **query))
