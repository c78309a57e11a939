"""Options that several commands have."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,6})([smhd])")

dry_run = click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
waiting = click.option("--wait", "wait_s", type=click.FloatRange(min=0), metavar="SECONDS", help="Until it is so.")


def formats(choices: Sequence[str]) -> Callable[[Any], Any]:
    return click.option("-o", "--output", "form", type=click.Choice(choices), default="table", show_default=True)


def moment_ago(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:  # noqa: ARG001
    """The moment that a duration before now began, as the API writes it."""
    if text is None:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise click.BadParameter("is a number with s, m, h or d, such as 10m")
    ago = timedelta(seconds=int(found[1]) * _UNITS[found[2]])
    return (datetime.now(UTC) - ago).isoformat().replace("+00:00", "Z")
