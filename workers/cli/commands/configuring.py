"""`login`, `logout`, `config`, `completion`."""

from pathlib import Path

import click
from click.shell_completion import get_completion_class

from workers.cli.client import Client
from workers.cli.config import DEFAULT, Place, config_file, read_contexts, write_contexts
from workers.cli.context import Session, complete_contexts, pass_session
from workers.cli.errors import INVALID, CLIError


@click.command()
@click.option("--name", default=DEFAULT, show_default=True, help="What this control plane is called here.")
@click.option("--ca-file", type=click.Path(exists=True, dir_okay=False), help="Whom to trust for TLS.")
@pass_session
def login(session: Session, name: str, ca_file: str | None) -> None:
    """Tries a service token and keeps it, in a file that only you can read."""
    url = (session.url or click.prompt("URL of the control plane")).rstrip("/")
    token = session.token or click.prompt("Service token", hide_input=True)
    place = Place(url=url, token=token.strip(), ca_file=str(Path(ca_file).absolute()) if ca_file else "")
    me = Client(place, session.timeout_s).get("me/")
    file = config_file()
    contexts = read_contexts(file)
    contexts.places[name], contexts.current = place, name
    write_contexts(file, contexts)
    click.echo(f"logged in to {url} as {me['name']}; kept in {file}")


@click.command()
@click.option("--name", default="", help="The current one, unless you say which.")
def logout(name: str) -> None:
    """Forgets a control plane and its token. The token itself works on until it is revoked."""
    file = config_file()
    contexts = read_contexts(file)
    chosen = name or contexts.current
    if contexts.places.pop(chosen, None) is None:
        raise CLIError(f"there is no context {chosen!r}", INVALID)
    if contexts.current == chosen:
        contexts.current = next(iter(contexts.places), DEFAULT)
    write_contexts(file, contexts)
    click.echo(f"forgotten: {chosen}")


@click.command()
@click.argument("use", required=False, shell_complete=complete_contexts)
def config(use: str | None) -> None:
    """Shows the control planes that are known; with a name, goes over to that one."""
    file = config_file()
    contexts = read_contexts(file)
    if use:
        if use not in contexts.places:
            raise CLIError(f"there is no context {use!r}", INVALID)
        contexts.current = use
        write_contexts(file, contexts)
    for name, place in sorted(contexts.places.items()):
        click.echo(f"{'*' if name == contexts.current else ' '} {name}  {place.url}")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Prints what a shell needs to complete: `eval "$(tokenyard completion bash)"`."""
    kind = get_completion_class(shell)
    if kind is None:
        raise CLIError(f"no completion for {shell}", INVALID)
    root = context.find_root()
    click.echo(kind(root.command, {}, "tokenyard", "_TOKENYARD_COMPLETE").source())
