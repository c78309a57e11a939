"""`describe`: one thing with all that belongs to it."""

from collections.abc import Iterable
from typing import Any

import click
import yaml

from workers.cli.client import Client
from workers.cli.context import Session, complete_things, pass_session
from workers.cli.errors import CLIError
from workers.cli.finding import find_row, split_names
from workers.cli.kinds import Kind, find_kind, gib
from workers.cli.output import show_rows, text_of

_EVENTS = 10
_ACCELERATOR = (
    "key", "name", "profile", "memory_total_bytes", "foreign_bytes", "island", "nvlinks", "numa", "pci_bus_id",
    "pcie_generation", "pcie_width", "driver_version", "problem",
)  # fmt: skip
_GIB_FIELDS = ("memory_total_bytes", "foreign_bytes", "memory_bytes", "disk_free_bytes")


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="KIND [NAME]...", shell_complete=complete_things)
@pass_session
def describe(session: Session, what: tuple[str, ...]) -> None:
    """Everything about one thing, or several: `describe node n1`, `describe deployment/chat`, `describe nodes`."""
    is_first = True
    for kind, names in split_names(what):
        rows = (find_row(session.client, kind, name) for name in names) if names else session.client.rows(kind.path)
        for row in rows:
            click.echo("" if is_first else "\n---\n", nl=not is_first)
            _describe(session.client, kind, row)
            is_first = False


def _describe(client: Client, kind: Kind, row: dict[str, Any]) -> None:
    _show_fields({field: value for field, value in row.items() if field not in {"accelerators", "inventory", "parts"}})
    more = {"nodes": _node, "deployments": _deployment, "replicas": _replica, "models": _model}.get(kind.name)
    if more is not None:
        more(client, row)
    _audit(client, kind, row)


def _show_fields(row: dict[str, Any]) -> None:
    width = max(map(len, row), default=0) + 1
    for name, value in row.items():
        if isinstance(value, (dict, list)) and value:
            click.echo(f"{name}:")
            click.echo("  " + yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip().replace("\n", "\n  "))
        else:
            shown = "" if value in ({}, []) else text_of(value, is_cut=False)
            click.echo(f"{f'{name}:':<{width}} {shown}".rstrip())


def _node(client: Client, row: dict[str, Any]) -> None:
    _heading("Inventory")
    _show_fields(_in_gib({name: value for name, value in row["inventory"].items() if name != "weights"}))
    _heading("Weights on its disk, GiB")
    for name, size in sorted((row["inventory"].get("weights") or {}).items()):
        click.echo(f"  {text_of(name, is_cut=False)}  {gib(size) if isinstance(size, int) else ''}".rstrip())
    _heading("Accelerators")
    for each in row["accelerators"]:
        facts = {name: each.get(name) for name in _ACCELERATOR if each.get(name) not in (None, "", [])}
        click.echo("  " + ", ".join(f"{name} {text_of(value)}" for name, value in _in_gib(facts).items()))
        for process in each.get("foreign_processes") or ():
            click.echo(f"    foreign process {process['pid']} {text_of(process.get('name'))}")
    _heading("Replicas")
    _list("replicas", client.rows("replicas/", node_id=row["id"]))


def _in_gib(facts: dict[str, Any]) -> dict[str, Any]:
    """Bytes are for programs."""
    return {
        name.replace("_bytes", "_gib"): gib(value) if name in _GIB_FIELDS and isinstance(value, int) else value
        for name, value in facts.items()
    }


def _deployment(client: Client, row: dict[str, Any]) -> None:
    _heading("Replicas")
    _list("replicas", client.rows("replicas/", deployment_id=row["id"]))
    _heading("One more replica")
    plan = client.get(f"deployments/{row['id']}/placement/")
    for place in plan["assignments"]:
        where = ", ".join(place["node_names"])
        click.echo(f"  would go to {where} and add {place['usd_per_h']:.2f} USD/h to the plan's cost")
    for remedy in plan["remedies"]:
        where = ", ".join(remedy["node_names"])
        click.echo(f"  would fit: {text_of(remedy['change'], is_cut=False)} ({text_of(where, is_cut=False)})")
    for refusal in plan["refusals"]:
        words = f"{refusal['node_name']} {refusal['key']}".strip() + f": {refusal['reason']}"
        click.echo(f"  {text_of(words, is_cut=False)}")
    _events(client, deployment_name=row["name"])


def _replica(client: Client, row: dict[str, Any]) -> None:
    if row.get("parts"):
        _heading("Parts, one on each node")
    for part in row.get("parts") or ():
        words = f"{part['rank'] + 1} of {len(row['parts'])} on {part['node_name']}: {part['state']} {part['detail']}"
        click.echo(f"  {text_of(words, is_cut=False)}".rstrip())
    _events(client, replica_id=row["id"])


def _model(client: Client, row: dict[str, Any]) -> None:
    _heading("Versions")
    _list("versions", client.rows("versions/", model_id=row["id"]))


def _events(client: Client, **query: str) -> None:
    _heading("Events")
    _list("events", list(client.rows("events/", limit=_EVENTS, **query))[::-1])


def _audit(client: Client, kind: Kind, row: dict[str, Any]) -> None:
    """Not everybody may see it."""
    if kind.name in {"audit", "events"}:
        return
    try:
        entries = list(client.rows("audit/", limit=_EVENTS, subject_id=row["id"]))
    except CLIError:
        return
    _heading("Audit")
    _list("audit", entries[::-1])


def _list(kind: str, rows: Iterable[dict[str, Any]]) -> None:
    if found := list(rows):
        show_rows(find_kind(kind), found, "table")
    else:
        click.echo("none")


def _heading(text: str) -> None:
    click.echo(f"\n{text}")
