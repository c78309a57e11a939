"""`logs` and `top`: what is going on now."""

import time
from typing import Any

import click

from workers.cli.client import Client
from workers.cli.context import Session, complete_things, pass_session
from workers.cli.errors import INVALID, NOT_FOUND, CLIError
from workers.cli.finding import find_row, one_of
from workers.cli.kinds import UNKNOWN, Column, gib
from workers.cli.output import show_content, show_table

_POLL_S = 1.0
_GIB = 1024**3


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="replica/ID | deployment/NAME", shell_complete=complete_things)
@click.option("-f", "--follow", is_flag=True, help="Go on.")
@pass_session
def logs(session: Session, what: tuple[str, ...], follow: bool) -> None:
    """The last lines of an engine's log; of a deployment, of all its replicas."""
    kind, name = one_of(what)
    if kind.name not in {"replicas", "deployments"}:
        raise CLIError("logs are of a replica or a deployment", INVALID)
    row = find_row(session.client, kind, name)
    shown: dict[str, list[str]] = {}
    while True:
        replicas = [row] if kind.name == "replicas" else list(session.client.rows("replicas/", deployment_id=row["id"]))
        if not replicas and not follow:
            raise CLIError("it has no replicas", NOT_FOUND)
        for each in replicas:
            _show_new(session.client, each["id"], shown, has_name=len(replicas) > 1)
        if not follow:
            return
        time.sleep(_POLL_S)


@click.command()
@click.argument("what", type=click.Choice(["nodes", "replicas"]), default="nodes")
@click.option("-o", "--output", "form", type=click.Choice(["table", "json", "yaml"]), default="table")
@click.option("-w", "--watch", is_flag=True, help="Again each second.")
@pass_session
def top(session: Session, what: str, form: str, watch: bool) -> None:
    """What nodes, or replicas, do at this moment. – is unknown, which is not zero."""
    while True:
        rows = session.client.get("live/nodes/")["results"]
        if what == "replicas":
            rows = [each | {"node_name": row["node_name"]} for row in rows for each in row["replicas"]]
        if watch and form == "table":
            click.clear()
        if form == "table":
            show_table(_NODES if what == "nodes" else _REPLICAS, rows)
        else:
            show_content(rows, form)
        if not watch:
            return
        time.sleep(_POLL_S)


def new_lines(shown: list[str], lines: list[str]) -> list[str]:
    """What of a tail has come since the tail that was shown: the two overlap as far as they can."""
    for start in range(len(shown)):
        if shown[start:] == lines[: len(shown) - start]:
            return lines[len(shown) - start :]
    return lines


def _show_new(client: Client, replica_id: str, shown: dict[str, list[str]], *, has_name: bool) -> None:
    lines = client.get(f"replicas/{replica_id}/logs/")["lines"]
    for line in new_lines(shown.get(replica_id, []), lines):
        text = "".join(each if each.isprintable() or each == "\t" else " " for each in line)
        click.echo(f"{replica_id[-6:]}  {text}" if has_name else text)
    shown[replica_id] = lines


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
