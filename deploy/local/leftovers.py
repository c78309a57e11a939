"""Ends what a killed supervisor left running, the node first and Postgres last."""

import signal
import time
from collections.abc import Callable, Mapping

from deploy.local import pidfiles
from deploy.local.layout import Layout
from workers.agent.engines.identity import ProcessIdentity, is_running, kill_group, send_signal

_GRACE_S = 5.0
_KILLED_WITHIN_S = 2.0
_POLL_S = 0.05


def end_leftovers(layout: Layout, report: Callable[[str], None]) -> None:
    """Call it while holding the supervisor's lock. Engines are left to the agent, which adopts them."""
    recorded = dict(pidfiles.recorded(layout.run))
    valkey = recorded.pop("valkey", None) or pidfiles.valkey_server(layout.valkey)
    postgres = recorded.pop("postgres", None) or pidfiles.postmaster(layout.postgres / "data")
    end(recorded, report)
    end({"valkey": valkey}, report)
    # Postgres waits for every client at SIGTERM; SIGINT ends their sessions.
    end({"postgres": postgres}, report, stop_signal=signal.SIGINT)
    (layout.postgres / "data" / "postmaster.pid").unlink(missing_ok=True)
    for name in (*recorded, "valkey", "postgres"):
        pidfiles.erase(layout.run, name)


def end(
    processes: Mapping[str, ProcessIdentity | None],
    report: Callable[[str], None],
    *,
    stop_signal: int = signal.SIGTERM,
    grace_s: float = _GRACE_S,
) -> None:
    """Asks, waits, then kills. A process whose start time differs from the recorded one is never touched."""
    signalled = {name: one for name, one in processes.items() if one is not None and send_signal(one, stop_signal)}
    for name, one in signalled.items():
        report(f"ending {name} (pid {one.pid})")
    if not _all_end(signalled, within_s=grace_s):
        for one in signalled.values():
            send_signal(one, signal.SIGKILL)
        _all_end(signalled, within_s=_KILLED_WITHIN_S)
    for one in signalled.values():
        kill_group(one)


def _all_end(processes: dict[str, ProcessIdentity], *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while any(is_running(one) for one in processes.values()):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
