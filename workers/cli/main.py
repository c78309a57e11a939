"""The command and its global options. Exit codes: 0 done, 1 failed, 2 usage; the others are in errors.py."""

import signal
import sys

import click

from workers.cli import VERSION
from workers.cli.commands.changing import cordon, delete, drain, label, restart, scale, uncordon
from workers.cli.commands.configuring import completion, config, login, logout
from workers.cli.commands.declaring import apply
from workers.cli.commands.describing import describe
from workers.cli.commands.getting import events, get
from workers.cli.commands.joining import join_token
from workers.cli.commands.rolling import rollout
from workers.cli.commands.watching import logs, top
from workers.cli.config import CONTEXT, TOKEN, URL
from workers.cli.context import Session, complete_contexts
from workers.cli.errors import FAILED

# As of every programme that ends by Ctrl-C: 128 and the number of the signal.
_INTERRUPTED = 130
_COMMANDS = (
    get, describe, apply, logs, top, scale, drain, rollout, events, cordon, uncordon, label, restart, delete,
    join_token, login, logout, config, completion,
)  # fmt: skip


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option("--url", metavar="URL", help=f"The control plane; or {URL}.")
@click.option(
    "--token", metavar="TOKEN", help=f"A service token; or {TOKEN}, which other users of this machine do not see."
)
@click.option(
    "--context",
    "context_name",
    metavar="NAME",
    help=f"A control plane that was logged in to; or {CONTEXT}.",
    shell_complete=complete_contexts,
)
@click.option(
    "--timeout",
    "timeout_s",
    default=30.0,
    show_default=True,
    type=click.FloatRange(min=0.1),
    help="Seconds for one answer.",
)
@click.version_option(VERSION, message="%(version)s")
@click.pass_context
def cli(context: click.Context, url: str | None, token: str | None, context_name: str | None, timeout_s: float) -> None:
    """Tokenyard on a command line.

    Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 not allowed, 5 conflict, 6 unreachable, 7 invalid,
    8 timed out, 9 too long ago, 130 ended by Ctrl-C.
    """
    context.obj = Session(url=url or "", token=token or "", context=context_name or "", timeout_s=timeout_s)


for each in _COMMANDS:
    cli.add_command(each)


def main() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: sys.exit(_INTERRUPTED))
    try:
        cli(prog_name="tokenyard")
    except BrokenPipeError:  # `| head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # the disk that the answer goes to is full
        click.echo(f"Error: the answer cannot be written: {error.strerror or error}", err=True)
        sys.exit(FAILED)
