"""Which process a pid file means. A pid alone may by now be somebody else's; with its start time it is not."""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_START_TICKS_FIELD = 19  # of what follows the command name in /proc/PID/stat: starttime
_STATE_FIELD = 0


@dataclass(frozen=True)
class ProcessIdentity:
    """`start_ticks` counts clock ticks since the machine booted."""

    pid: int
    start_ticks: int


def identify(pid: int) -> ProcessIdentity | None:
    """None when no such process runs; one that has ended but not been waited for does not run."""
    fields = _stat_fields(pid)
    if not fields or fields[_STATE_FIELD] in {"Z", "X"}:
        return None
    return ProcessIdentity(pid, int(fields[_START_TICKS_FIELD]))


def is_running(identity: ProcessIdentity) -> bool:
    return identify(identity.pid) == identity


def send_signal(identity: ProcessIdentity, number: int) -> bool:
    """False when it does not run any more. The check and the signal speak of one process (pidfd)."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(identity.pid)
        try:
            if is_running(identity):
                signal.pidfd_send_signal(descriptor, number)
                return True
        finally:
            os.close(descriptor)
    return False


def _stat_fields(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[text.rindex(")") + 1 :].split()
