"""`rollout`: how far a deployment is on its way to its newest revision; held up, taken further, taken back."""

from collections.abc import Callable
from typing import Any

import click

from workers.cli.client import Client
from workers.cli.commands.changing import say, thing, wait_until, write
from workers.cli.context import Session, pass_session, things_of
from workers.cli.finding import find_one
from workers.cli.kinds import Column
from workers.cli.options import dry_run, formats, waiting
from workers.cli.output import show_content, show_table

_KINDS = ("deployments",)
_deployment = thing("[deployment/]NAME", things_of(*_KINDS))


@click.group()
def rollout() -> None:
    """A deployment on its way from one revision to the next: `rollout status deployment/chat`."""


@rollout.command()
@_deployment
@formats(("table", "json", "yaml"))
@waiting
@pass_session
def status(session: Session, what: tuple[str, ...], form: str, **options: Any) -> None:
    """How far it is, and what it waits for; with --wait until it is done."""
    _, row = find_one(session.client, what, _KINDS)
    if form == "table":
        _show(session.client, row)
    else:
        show_content(row["rollout"], form)
    wait_until(options, _is_done(session.client, row), "the rollout is done")


@rollout.command()
@_deployment
@formats(("table", "json", "yaml"))
@pass_session
def history(session: Session, what: tuple[str, ...], form: str) -> None:
    """Its revisions, the newest first."""
    _, row = find_one(session.client, what, _KINDS)
    rows = list(session.client.rows(f"deployments/{row['id']}/revisions/"))
    if form == "table":
        show_table(_REVISIONS, rows)
    else:
        show_content(rows, form)


@rollout.command()
@_deployment
@dry_run
@pass_session
def pause(session: Session, what: tuple[str, ...], **options: Any) -> None:
    """Replicas stay what they are until it is resumed."""
    _, row = find_one(session.client, what, _KINDS)
    write(session.client, "POST", f"deployments/{row['id']}/rollout/pause/", is_dry=options["dry_run"])
    say(options, f"deployments/{row['name']}: the rollout is paused")


@rollout.command()
@_deployment
@dry_run
@waiting
@pass_session
def resume(session: Session, what: tuple[str, ...], **options: Any) -> None:
    """Goes on where it was paused."""
    _, row = find_one(session.client, what, _KINDS)
    write(session.client, "DELETE", f"deployments/{row['id']}/rollout/pause/", is_dry=options["dry_run"])
    say(options, f"deployments/{row['name']}: the rollout goes on")
    wait_until(options, _is_done(session.client, row), "the rollout is done")


@rollout.command()
@_deployment
@click.option(
    "--to", "--to-revision", "number", type=click.IntRange(min=1), help="That revision; without, the one before."
)
@dry_run
@waiting
@pass_session
def undo(session: Session, what: tuple[str, ...], number: int | None, **options: Any) -> None:
    """Back to an older revision, at the same pace."""
    _, row = find_one(session.client, what, _KINDS)
    body = {} if number is None else {"number": number}
    write(session.client, "POST", f"deployments/{row['id']}/rollout/undo/", body, is_dry=options["dry_run"])
    target = "the revision before" if number is None else f"revision {number}"
    say(options, f"deployments/{row['name']} goes back to {target}")
    wait_until(options, _is_done(session.client, row), "the rollout is done")


def _show(client: Client, row: dict[str, Any]) -> None:
    found = row["rollout"]
    click.echo(f"{row['name']}: {found['state']}{_and(found['detail'])}")
    click.echo(
        f"  newest revision {found['newer_ready_count']} of {found['wanted_count']} ready, "
        f"older {found['older_ready_count']} of {found['older_count']} still serving"
    )
    show_table(_REVISIONS, list(client.rows(f"deployments/{row['id']}/revisions/")))


def _and(detail: str) -> str:
    return f", {detail}" if detail else ""


def _is_done(client: Client, row: dict[str, Any]) -> Callable[[], bool]:
    def is_done() -> bool:
        return bool(client.get(f"deployments/{row['id']}/")["rollout"]["state"] == "done")

    return is_done


_REVISIONS = (
    Column("REVISION", lambda row: row["number"]),
    Column("VERSION", lambda row: row["version"]),
    Column("AT ONCE", lambda row: row["max_running_requests"]),
    Column("MADE", lambda row: row["created_at"]),
)
