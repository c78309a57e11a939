"""What every command is given: how to reach the control plane, asked for only when it is needed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import click
from click.shell_completion import CompletionItem

from workers.cli.client import Client
from workers.cli.config import config_file, find_place, read_contexts
from workers.cli.errors import CLIError
from workers.cli.kinds import KINDS, find_kind
from workers.cli.output import name_of

_COMPLETION_TIMEOUT_S = 2.0
_MOST_COMPLETIONS = 200


@dataclass
class Session:
    url: str = ""
    token: str = field(default="", repr=False)
    context: str = ""
    timeout_s: float = 30.0

    @cached_property
    def client(self) -> Client:
        return Client(find_place(url=self.url, token=self.token, context=self.context), self.timeout_s)


def pass_session(command: Callable[..., Any]) -> Callable[..., Any]:
    """Hands a command its session, before its own arguments."""
    return click.make_pass_decorator(Session, ensure=True)(command)


Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_things(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:  # noqa: ARG001
    """Kinds, and after a kind its names, as the control plane has them now."""
    words = list(context.params.get("what") or ())
    if "/" in typed:
        kind_word, _, name = typed.partition("/")
        return _named(context, kind_word, name, prefix=f"{kind_word}/")
    if words:
        return _named(context, words[0].partition("/")[0], typed)
    return [CompletionItem(kind.name) for kind in KINDS if kind.name.startswith(typed)]


def things_of(*kinds: str) -> Completer:
    """Names of these kinds where only they can be meant: alone, or after the kind."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        if "/" in typed or context.params.get("what"):
            return complete_things(context, parameter, typed)
        names = [item for kind in kinds for item in _named(context, kind, typed)]
        return [*names, *(CompletionItem(kind) for kind in kinds if kind.startswith(typed))]

    return complete


def complete_contexts(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:  # noqa: ARG001
    try:
        places = read_contexts(config_file()).places
    except CLIError:
        return []
    return [CompletionItem(name) for name in sorted(places) if name.startswith(typed)]


def _named(context: click.Context, kind_word: str, typed: str, *, prefix: str = "") -> list[CompletionItem]:
    return [CompletionItem(f"{prefix}{each}") for each in _names(context, kind_word) if each.startswith(typed)]


def _names(context: click.Context, kind_word: str) -> list[str]:
    root: dict[str, Any] = context.find_root().params
    session = Session(
        root.get("url") or "", root.get("token") or "", root.get("context_name") or "", _COMPLETION_TIMEOUT_S
    )
    try:
        kind = find_kind(kind_word)
        return [name_of(kind, row) for row in session.client.rows(kind.path, limit=_MOST_COMPLETIONS)]
    except CLIError:
        return []
