"""`join-token`: what makes a machine a node."""

import click

from workers.cli.context import Session, pass_session
from workers.cli.errors import INVALID, CLIError


@click.command("join-token")
@click.option("-l", "--label", "labels", multiple=True, metavar="NAME=VALUE", help="Of nodes that join by it.")
@click.option(
    "--lifetime", "lifetime_s", default=3600, show_default=True, type=click.IntRange(60, 604_800), help="Seconds."
)
@click.option(
    "--as", "form", type=click.Choice(["make", "container", "systemd", "token"]), default="make", show_default=True
)
@pass_session
def join_token(session: Session, labels: tuple[str, ...], lifetime_s: int, form: str) -> None:
    """Lets one machine join, once, and prints what to type on it."""
    if wrong := [each for each in labels if "=" not in each]:
        raise CLIError(f"a label is NAME=VALUE, not {wrong[0]!r}", INVALID)
    body = {"labels": dict(each.split("=", 1) for each in labels), "lifetime_s": lifetime_s}
    made = session.client.write("POST", "join-tokens/", body)
    field = {"make": "make_line", "container": "container_line", "systemd": "systemd_unit", "token": "token"}[form]
    click.echo(made[field])
