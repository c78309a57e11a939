"""`apply`: shows the difference, asks, and does exactly what was shown."""

import re
import sys
from pathlib import Path
from typing import Any

import click

from workers.cli.context import Session, pass_session
from workers.cli.errors import INVALID, CLIError
from workers.cli.output import show_content, text_of
from workers.cli.sources import Sources

_ENDINGS = (".yaml", ".yml", ".json")
_YAML = {"Content-Type": "application/yaml"}
_NOT_YAML = re.compile(r"not YAML: line (\d+): (.*)", re.DOTALL)
_MARKS = {"create": ("+", "green"), "change": ("~", "yellow"), "remove": ("-", "red"), "release": ("-", "red")}


@click.command()
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    type=click.Path(),
    metavar="FILE",
    help="Also a directory, or - for stdin.",
)
@click.option("--set", "set_name", default="default", show_default=True, help="Who owns these things.")
@click.option("--prune", is_flag=True, help="What the set owns and no document names goes.")
@click.option("--take-over", is_flag=True, help="Things of another set become this one's.")
@click.option("--dry-run", is_flag=True, help="Show the difference, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("-o", "--output", "form", type=click.Choice(["table", "json", "yaml"]), default="table")
@pass_session
def apply(session: Session, files: tuple[str, ...], dry_run: bool, yes: bool, form: str, **options: Any) -> None:
    """Makes things as documents say, all of them or none: `apply -f yard.yaml`."""
    sources = Sources([found for each in files for found in _read(each)])
    query = {"set": options["set_name"], "prune": options["prune"], "take_over": options["take_over"]}
    try:
        planned = session.client.write("POST", "apply/", sources.text, headers=_YAML, dry_run="1", **query)
    except CLIError as error:
        raise _with_places(error, sources) from None
    if form == "table":
        _show(planned)
    if not any(each["action"] != "keep" for each in planned["results"]) or dry_run:
        _finish(planned, form, "nothing to do" if not dry_run else "dry run, nothing was changed; it would be")
        return
    if not yes:
        _ask(files)
    applied = session.client.write("POST", "apply/", sources.text, headers=_YAML, plan=planned["plan"], **query)
    _finish(applied, form, "done")


def _read(name: str) -> list[tuple[str, str]]:
    """Of each file its name and its text."""
    if name == "-":
        return [("stdin", sys.stdin.read())]
    path = Path(name)
    files = sorted(each for each in path.rglob("*") if each.suffix in _ENDINGS) if path.is_dir() else [path]
    if not files:
        raise CLIError(f"{name} has no {', '.join(_ENDINGS)}", INVALID)
    try:
        return [(str(each), each.read_text(encoding="utf-8")) for each in files]
    except (OSError, UnicodeDecodeError) as error:
        raise CLIError(f"{name} cannot be read: {error}", INVALID) from error


def _with_places(error: CLIError, sources: Sources) -> CLIError:
    """A problem is told of a document by its number, and people look for it in a file."""
    if found := _NOT_YAML.fullmatch(error.message):
        return CLIError(f"{sources.place_of_line(int(found[1]))}: not YAML: {found[2]}", error.exit_code)
    lines = [f"{place}: {name}: {text}" for name, text in error.fields.items() if (place := sources.place_of(name))]
    return CLIError("\n".join(lines), error.exit_code) if len(lines) == len(error.fields) > 0 else error


def _ask(files: tuple[str, ...]) -> None:
    if "-" in files or not sys.stdin.isatty():
        raise CLIError("nobody can be asked here; say --yes, or --dry-run", INVALID)
    click.confirm("Do this?", abort=True)


def _show(planned: dict[str, Any]) -> None:
    for each in planned["results"]:
        if each["action"] == "keep":
            continue
        mark, colour = _MARKS[each["action"]]
        owner = f" (was of the set {each['owner_before']})" if _is_taken(each, planned["set_name"]) else ""
        click.secho(f"{mark} {each['kind']} {each['title']}{owner}", fg=colour)
        for change in each["diff"] if each["action"] != "remove" else ():
            click.echo(f"    {change['field']}: {text_of(change['from'])} → {text_of(change['to'])}")
        if each["note"]:
            click.echo(f"    {each['note']}")


def _is_taken(result: dict[str, Any], set_name: str) -> bool:
    return result["owner_before"] not in {None, set_name} and result["document"] is not None


def _finish(applied: dict[str, Any], form: str, text: str) -> None:
    if form != "table":
        show_content(applied, form)
        return
    counts = {
        action: sum(each["action"] == action for each in applied["results"]) for action in ("create", "change", "keep")
    }
    gone = sum(each["action"] in {"remove", "release"} for each in applied["results"])
    click.echo(
        f"{text}: {counts['create']} new, {counts['change']} changed, {gone} gone, {counts['keep']} as they were"
    )
