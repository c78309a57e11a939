"""Engines outlive their agent on purpose; a full stop of the stack ends them."""

from collections.abc import Callable

from deploy.local import pidfiles
from deploy.local.layout import Layout
from deploy.local.leftovers import end
from workers.agent.identity import is_running

# An engine may hang at SIGTERM with streams open (seen with vLLM); a stop of the stack may take ten seconds in all.
_GRACE_S = 3.0


def has_engines(layout: Layout) -> bool:
    return any(is_running(identity) for _, identity in pidfiles.recorded(layout.node))


def end_engines(layout: Layout, show: Callable[[str], None] = lambda _: None) -> None:
    found = {f"engine {name}": identity for name, identity in pidfiles.recorded(layout.node)}
    end(found, show, grace_s=_GRACE_S)
