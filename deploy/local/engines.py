"""Engines outlive their agent on purpose; a full stop of the stack ends them."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from deploy.local import pidfiles
from deploy.local.layout import Layout
from deploy.local.leftovers import end
from workers.agent.engines.identity import ProcessIdentity, identify, is_running

# An engine may hang at SIGTERM with streams open (seen with vLLM); a stop of the stack may take ten seconds in all.
_GRACE_S = 3.0


def has_engines(layout: Layout) -> bool:
    return any(is_running(identity) for _, identity in pidfiles.recorded(layout.node))


def end_engines(layout: Layout, show: Callable[[str], None] = lambda _: None) -> None:
    """Those with a pid file, and those whose pid file was deleted under them."""
    recorded = {f"engine {name}": identity for name, identity in pidfiles.recorded(layout.node)}
    known = set(recorded.values())
    strays = {f"engine without a pid file {one.pid}": one for one in _writing_under(layout.node) if one not in known}
    end(recorded | strays, show, grace_s=_GRACE_S)


def _writing_under(directory: Path) -> Iterator[ProcessIdentity]:
    """Leaders of sessions whose output goes there, as an engine's does; /proc knows the path of a deleted file too."""
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        with suppress(OSError):
            if os.getsid(pid) == pid and (entry / "fd" / "1").readlink().is_relative_to(directory.resolve()):
                identity = identify(pid)
                if identity is not None:
                    yield identity
