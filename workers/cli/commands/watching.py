"""`logs` and `top`: what is going on now."""

import time
from collections.abc import Callable
from typing import Any

import click

from workers.cli.client import Client
from workers.cli.context import Session, complete_things, pass_session, things_of
from workers.cli.errors import INVALID, NOT_FOUND, UNREACHABLE, CLIError
from workers.cli.finding import find_one, find_row, split_names
from workers.cli.kinds import UNKNOWN, Column, Kind, gib
from workers.cli.options import formats
from workers.cli.output import show_content, show_table

_POLL_S = 1.0
_GIB = 1024**3


@click.command()
@click.argument(
    "what",
    nargs=-1,
    required=True,
    metavar="[replica/]ID | [deployment/]NAME",
    shell_complete=things_of("deployments", "replicas"),
)
@click.option("-f", "--follow", is_flag=True, help="Go on.")
@click.option("-n", "--tail", type=click.IntRange(min=0), help="At most so many lines to begin with.")
@pass_session
def logs(session: Session, what: tuple[str, ...], follow: bool, tail: int | None) -> None:
    """The last lines of an engine's log; of a deployment, of all its replicas."""
    kind, row = find_one(session.client, what, ("replicas", "deployments"))
    shown: dict[str, list[str]] = {}

    def show() -> None:
        replicas = [row] if kind.name == "replicas" else _replicas_of(session.client, row)
        if not replicas and not follow:
            raise CLIError("it has no replicas", NOT_FOUND)
        for each in replicas:
            _show_new(session.client, each["id"], shown, has_name=len(replicas) > 1, tail=tail)

    _go_round(show, is_once=not follow)


@click.command()
@click.argument("what", nargs=-1, metavar="[nodes|replicas] [NAME]...", shell_complete=complete_things)
@formats(("table", "json", "yaml"))
@click.option("-w", "--watch", is_flag=True, help="Again each second.")
@pass_session
def top(session: Session, what: tuple[str, ...], form: str, watch: bool) -> None:
    """What nodes, or replicas, do at this moment. – is unknown, which is not zero."""
    named = split_names(what or ("nodes",))
    kind, names = named[0]
    if kind.name not in _TABLES or len(named) > 1:
        raise CLIError("top is of nodes or of replicas", INVALID)
    wanted = {str(find_row(session.client, kind, name)["id"]) for name in names}
    columns, id_field = _TABLES[kind.name]

    def show() -> None:
        rows = [row for row in _live(session.client, kind) if not wanted or row[id_field] in wanted]
        if form != "table":
            show_content(rows, form)
            return
        if watch:
            click.clear()
        show_table(columns, rows)

    _go_round(show, is_once=not watch)


def _go_round(show: Callable[[], None], *, is_once: bool) -> None:
    """Once, or each second until somebody ends it; a control plane that goes away meanwhile is waited for."""
    show()
    while not is_once:
        time.sleep(_POLL_S)
        try:
            show()
        except CLIError as error:
            if error.exit_code != UNREACHABLE:
                raise
            click.echo(error.message, err=True)


def _live(client: Client, kind: Kind) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.get("live/nodes/")["results"]
    if kind.name == "nodes":
        return rows
    return [each | {"node_name": row["node_name"]} for row in rows for each in row["replicas"]]


def new_lines(shown: list[str], lines: list[str]) -> list[str]:
    """What of a tail has come since the tail that was shown: the two overlap as far as they can."""
    for start in range(len(shown)):
        if shown[start:] == lines[: len(shown) - start]:
            return lines[len(shown) - start :]
    return lines


def _replicas_of(client: Client, deployment: dict[str, Any]) -> list[dict[str, Any]]:
    return list(client.rows("replicas/", deployment_id=deployment["id"]))


def _show_new(
    client: Client, replica_id: str, shown: dict[str, list[str]], *, has_name: bool, tail: int | None
) -> None:
    lines = _lines_of(client, replica_id, shown)
    new = new_lines(shown.get(replica_id, []), lines)
    for line in new if tail is None or replica_id in shown else new[len(new) - min(tail, len(new)) :]:
        text = "".join(each if each.isprintable() or each == "\t" else " " for each in line)
        click.echo(f"{replica_id[-6:]}  {text}" if has_name else text)
    shown[replica_id] = lines


def _lines_of(client: Client, replica_id: str, shown: dict[str, list[str]]) -> list[str]:
    """One that has gone since it was listed has no more to say."""
    try:
        lines: list[str] = client.get(f"replicas/{replica_id}/logs/")["lines"]
    except CLIError as error:
        if error.exit_code != NOT_FOUND or replica_id not in shown:
            raise
        return shown[replica_id]
    return lines


def _ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _used(row: Any) -> str:
    gpus = [each for each in row["accelerators"] if each["kind"] != "cpu"]
    known = [each for each in gpus if each["memory_used_bytes"] is not None and each["memory_total_bytes"]]
    if not known:
        return UNKNOWN
    used, total = (sum(each[name] for each in known) / _GIB for name in ("memory_used_bytes", "memory_total_bytes"))
    return f"{used:.0f}/{total:.0f}"


def _busy(row: Any) -> str:
    gpus = [each for each in row["accelerators"] if each["kind"] != "cpu"]
    known = [each["utilisation_ratio"] for each in gpus if each["utilisation_ratio"] is not None]
    return _ratio(sum(known) / len(known)) if known else UNKNOWN


_NODES = (
    Column("NODE", lambda row: row["node_name"]),
    Column("AGE S", lambda row: f"{row['age_s']:.0f}"),
    Column("GPU GIB", _used),
    Column("GPU BUSY", _busy),
    Column(
        "ENGINES", lambda row: f"{sum(each['state'] == 'ready' for each in row['replicas'])}/{len(row['replicas'])}"
    ),
    Column("RUNNING", lambda row: _number(row["running_requests"])),
    Column("QUEUED", lambda row: _number(row["queued_requests"])),
    Column("REQ/S", lambda row: UNKNOWN if row["requests_per_s"] is None else f"{row['requests_per_s']:.1f}"),
    Column("TOK/S", lambda row: _number(row["output_tokens_per_s"])),
)
_REPLICAS = (
    Column("REPLICA", lambda row: row["replica_id"]),
    Column("NODE", lambda row: row["node_name"]),
    Column("STATE", lambda row: row["state"]),
    Column("RUNNING", lambda row: _number(row["running_requests"])),
    Column("WAITING", lambda row: _number(row["waiting_requests"])),
    Column("KV", lambda row: _ratio(row["kv_used_ratio"])),
    Column("MEMORY GIB", lambda row: gib(row["memory_bytes"])),
    Column("RESTARTS", lambda row: row["restarts"]),
)
_TABLES = {"nodes": (_NODES, "node_id"), "replicas": (_REPLICAS, "replica_id")}
