"""`python -m deploy.local up|status|logs|manage|down|reset`, which the Makefile calls."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence

from deploy.local import control
from deploy.local.accounts import NoAccountError
from deploy.local.configuration import Configuration, ConfigurationError, read_configuration
from deploy.local.layout import DataPlaceError
from deploy.local.ports import PortTakenError
from deploy.local.postgres import PostgresError
from deploy.local.programme import project_root
from deploy.local.stack import AlreadyRunningError, DataGoneError, up
from deploy.local.supervised import StartError
from deploy.local.valkey import DataInUseError

_REFUSALS = (
    AlreadyRunningError,
    ConfigurationError,
    DataGoneError,
    DataInUseError,
    DataPlaceError,
    NoAccountError,
    PortTakenError,
    PostgresError,
    StartError,
)


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        configuration = read_configuration(os.environ, root=project_root())
        return _COMMANDS[options.command](configuration, options)
    except _REFUSALS as refusal:
        print(f"\n✗ {refusal}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        return 130


def _up(configuration: Configuration, options: argparse.Namespace) -> int:
    if options.detach:
        return control.up_detached(configuration, _show)
    follows = not options.background
    asyncio.run(up(configuration, _show, follows_logs=follows, has_colour=_has_colour()))
    return 0


def _status(configuration: Configuration, _: argparse.Namespace) -> int:
    return control.status(configuration, _show)


def _logs(configuration: Configuration, _: argparse.Namespace) -> int:
    return control.show_logs(configuration, _show, has_colour=_has_colour())


def _manage(configuration: Configuration, options: argparse.Namespace) -> int:
    return control.manage(configuration, options.arguments, _show)


def _down(configuration: Configuration, _: argparse.Namespace) -> int:
    return control.down(configuration, _show)


def _reset(configuration: Configuration, options: argparse.Namespace) -> int:
    if not options.yes and not _is_confirmed(f"Delete all data of the stack in {configuration.var}? [y/N] "):
        _show("Nothing was deleted.")
        return 1
    return control.reset(configuration, _show)


_COMMANDS: dict[str, Callable[[Configuration, argparse.Namespace], int]] = {
    "up": _up,
    "status": _status,
    "logs": _logs,
    "manage": _manage,
    "down": _down,
    "reset": _reset,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    starting = commands.add_parser("up", help="start everything and stay in the foreground")
    starting.add_argument("--detach", action="store_true", help="return as soon as the model answers")
    starting.add_argument("--background", action="store_true", help=argparse.SUPPRESS)
    commands.add_parser("status", help="what runs, since when, restarted how often")
    commands.add_parser("logs", help="the last lines of every log, then what is added")
    managing = commands.add_parser("manage", help="a command of manage.py in the stack that runs")
    managing.add_argument("arguments", nargs=argparse.REMAINDER)
    commands.add_parser("down", help="stop everything, also what a killed supervisor left")
    resetting = commands.add_parser("reset", help="stop everything and delete its data")
    resetting.add_argument("--yes", action="store_true", help="do not ask")
    return parser


def _is_confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        print("✗ nobody to ask: say `make reset YES=1`", file=sys.stderr)
        return False
    return input(question).strip().lower() in {"y", "yes"}


def _show(line: str) -> None:
    print(line, flush=True)


def _has_colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
