"""The state of the stack on disk, for `status` and for whoever waits for it to be ready."""

import os
from pathlib import Path

import msgspec

from deploy.local.layout import write_private
from deploy.local.supervised import Status
from workers.agent.engines.identity import ProcessIdentity, identify, is_running


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    state: str
    pid: int | None
    started_at: float | None
    restarts: int


class StackState(msgspec.Struct, frozen=True, kw_only=True):
    """`phase` is starting, ready, stopping or failed; times are in Unix seconds."""

    phase: str
    started_at: float
    supervisor_pid: int
    supervisor_start_ticks: int
    processes: list[ProcessState]

    @property
    def supervisor(self) -> ProcessIdentity:
        return ProcessIdentity(self.supervisor_pid, self.supervisor_start_ticks)


def write(path: Path, *, phase: str, started_at: float, statuses: list[Status]) -> None:
    ours = identify(os.getpid())
    processes = [
        ProcessState(
            name=status.name,
            state=status.state,
            pid=status.identity.pid if status.identity else None,
            started_at=status.started_at,
            restarts=status.restarts,
        )
        for status in statuses
    ]
    content = StackState(
        phase=phase,
        started_at=started_at,
        supervisor_pid=os.getpid(),
        supervisor_start_ticks=ours.start_ticks if ours else 0,
        processes=processes,
    )
    write_private(path, msgspec.json.encode(content).decode())


def read(path: Path) -> StackState | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=StackState)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def read_running(path: Path) -> StackState | None:
    """The state, when the supervisor that wrote it still runs."""
    found = read(path)
    return found if found is not None and is_running(found.supervisor) else None
