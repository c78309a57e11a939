"""Which process a pid means. A number alone may by now be somebody else's; with its start time it is not."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

# Of what follows the command name in /proc/PID/stat.
_STATE_FIELD = 0
_START_TICKS_FIELD = 19


class ProcessIdentity(Struct, frozen=True):
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
    """False when it runs no more. The check and the signal speak of one process, whatever happens in between."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(identity.pid)
        try:
            if is_running(identity):
                signal.pidfd_send_signal(descriptor, number)
                return True
        finally:
            os.close(descriptor)
    return False


def kill_group(identity: ProcessIdentity) -> None:
    """SIGKILL to a leader and all it started, also after the leader has gone.

    A number that is by now another process is left alone. While anything is left of the old group, the kernel does not
    give its number to a new process, so a group whose leader is gone is still ours.
    """
    stranger = identify(identity.pid)
    if stranger is None or stranger == identity:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(identity.pid, signal.SIGKILL)


def find_marked(name: str) -> list[tuple[str, ProcessIdentity]]:
    """Session leaders that were started with this variable in their environment, and its value."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        # Another user's, or one that has just ended.
        with suppress(OSError):
            value = _value_of(name, path.read_bytes())
            identity = None if value is None else identify(int(path.parent.name))
            if value is not None and identity and _leads_session(identity.pid):
                found.append((value, identity))
    return found


def _value_of(name: str, environ: bytes) -> str | None:
    beginning = f"{name}=".encode()
    found = (each for each in environ.split(b"\0") if each.startswith(beginning))
    return next((each[len(beginning) :].decode(errors="replace") for each in found), None)


def _leads_session(pid: int) -> bool:
    with suppress(ProcessLookupError):
        return os.getsid(pid) == pid
    return False


def _stat_fields(pid: int) -> list[str]:
    """The kernel cuts a command's name after 15 bytes, in the middle of a letter if need be."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[text.rindex(")") + 1 :].split()
