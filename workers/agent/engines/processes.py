"""Engine processes of this node. What is known of each lies in the node's directory, so a new agent knows them again.

engine-<replica id>.pid    JSON: pid and start_ticks (as every pid file of the stack has), spec, limits, has_passed
logs/engine-<replica id>.log   logs.py
"""

import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from workers.agent.engines.identity import ProcessIdentity, find_marked, identify, is_running, kill_group, send_signal
from workers.agent.engines.logs import EngineLogs
from workers.agent.engines.memory import ENDED_BY_ITSELF, ProcessView
from workers.contracts.desired import ReplicaSpec
from workers.contracts.endpoints import EngineShape
from workers.contracts.layout import write_whole
from workers.engines.interface import LaunchPlan

log = logging.getLogger(__name__)

_PREFIX, _SUFFIX = "engine-", ".pid"
_MARKER = "ENGINE_OF_REPLICA"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# The agent's own, and keys to the stores that it reads for its engines.
_NOT_FOR_ENGINES = ("TOKENYARD_", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class _Record(Struct, frozen=True, kw_only=True):
    pid: int
    start_ticks: int
    spec: ReplicaSpec
    start_timeout_s: float
    stop_grace_s: float
    max_running_requests: int
    shape: EngineShape = EngineShape()
    has_passed: bool = False
    stall_s: float = 0.0
    can_sleep: bool = False
    is_asleep: bool = False
    draining_since: float | None = None
    stopping_since: float | None = None
    log_began_at: int = 0

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.start_ticks)


def boot_clock() -> float:
    """Seconds since the machine booted: the clock of process start times, the same for every agent process."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class EngineProcesses:
    """`environ` is passed to engines, without what is ours: no engine needs the agent's token, or a store's key."""

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        self._directory = directory
        self._logs = EngineLogs(directory / "logs")
        self._environ = {name: value for name, value in environ.items() if not name.startswith(_NOT_FOR_ENGINES)}
        # Of our own children; empty while they run. Of an adopted process nobody learns how it ended.
        self._exit_details: dict[int, str] = {}

    def end_strays(self) -> None:
        """Of agents before this one, whether their replicas are wanted still or not; once, before anything starts."""
        known = {self._marker(each) for each, view in self.observe().items() if view.is_alive}
        self._end_marked(lambda marker: marker.startswith(self._marker("")) and marker not in known)

    def observe(self) -> dict[str, ProcessView]:
        """Every engine that was started and not yet forgotten, dead or alive, by replica id."""
        views = {}
        for path in sorted(self._directory.glob(f"{_PREFIX}*{_SUFFIX}")):
            record = self._read(path)
            if record is not None:
                views[record.spec.replica_id] = self._view(record)
        return views

    def leader_pids(self) -> set[int]:
        """Engines lead process sessions of their own, so these are the numbers of our sessions, too."""
        records = (self._read(path) for path in self._directory.glob(f"{_PREFIX}*{_SUFFIX}"))
        return {record.pid for record in records if record and is_running(record.identity)}

    def start(self, spec: ReplicaSpec, plan: LaunchPlan) -> None:
        """Raises OSError when it cannot be started."""
        marker = self._marker(spec.replica_id)
        self._end_marked(lambda found: found == marker)
        with self._logs.open(spec.replica_id) as output:
            log_began_at = output.tell()
            pid = _spawn(plan.argv, self._environ | plan.env | {_MARKER: marker}, output.fileno())
        self._exit_details[pid] = ""
        identity = identify(pid)
        record = _Record(
            pid=pid,
            start_ticks=identity.start_ticks if identity else 0,
            spec=spec,
            start_timeout_s=plan.start_timeout_s,
            stop_grace_s=plan.stop_grace_s,
            max_running_requests=plan.max_running_requests,
            shape=plan.shape,
            stall_s=plan.stall_s,
            can_sleep=plan.can_sleep,
            log_began_at=log_began_at,
        )
        try:
            self._write(record)
        except OSError:  # one that nobody has written down would be nobody's to stop
            kill_group(record.identity)
            raise
        log.info("started %s for replica %s as process %d", spec.engine, spec.replica_id, pid)

    def stop(self, replica_id: str) -> None:
        record = self._find(replica_id)
        if record and send_signal(record.identity, signal.SIGTERM):
            log.info("asked process %d of replica %s to stop", record.pid, replica_id)

    def kill(self, replica_id: str) -> None:
        record = self._find(replica_id)
        if record:
            log.warning("killing process %d of replica %s", record.pid, replica_id)
            kill_group(record.identity)

    def forget(self, replica_id: str) -> None:
        """Also ends what a dead engine has left of itself."""
        record = self._find(replica_id)
        if record and not is_running(record.identity):
            kill_group(record.identity)
            self._exit_details.pop(record.pid, None)
            self._path(replica_id).unlink(missing_ok=True)

    def mark_passed(self, replica_id: str, pid: int) -> None:
        self._note(replica_id, pid, has_passed=True, is_asleep=False)

    def mark_asleep(self, replica_id: str, pid: int) -> None:
        """Before it is put to sleep: whoever comes after must not offer it."""
        self._note(replica_id, pid, is_asleep=True)

    def mark_leaving(self, replica_id: str, pid: int, since: tuple[float | None, float | None]) -> None:
        """Since when it drains and stops, for an agent that comes after this one."""
        self._note(replica_id, pid, draining_since=since[0], stopping_since=since[1])

    def _note(self, replica_id: str, pid: int, **facts: Any) -> None:
        record = self._find(replica_id)
        if record and record.pid == pid and any(getattr(record, name) != value for name, value in facts.items()):
            self._write(structs.replace(record, **facts))

    def log_tail(self, replica_id: str, lines: int) -> list[str]:
        return self._logs.tail(replica_id, lines)

    def bound_logs(self, wanted: AbstractSet[str]) -> None:
        self._logs.bound(wanted)

    def _marker(self, replica_id: str) -> str:
        return f"{self._directory}:{replica_id}"

    def _view(self, record: _Record) -> ProcessView:
        self._reap(record.pid)
        is_alive = is_running(record.identity)
        return ProcessView(
            spec=record.spec,
            pid=record.pid,
            started_at=record.start_ticks / _TICKS_PER_S,
            is_alive=is_alive,
            has_passed=record.has_passed,
            exit_detail="" if is_alive else self._how_it_ended(record),
            start_timeout_s=record.start_timeout_s,
            stop_grace_s=record.stop_grace_s,
            max_running_requests=record.max_running_requests,
            shape=record.shape,
            stall_s=record.stall_s,
            can_sleep=record.can_sleep,
            is_asleep=record.is_asleep,
            draining_since=record.draining_since,
            stopping_since=record.stopping_since,
        )

    def _how_it_ended(self, record: _Record) -> str:
        """Who is killed has no time to say why."""
        ended = self._exit_details.get(record.pid) or ENDED_BY_ITSELF
        is_killed = ended == _describe(-signal.SIGKILL)
        cause = "" if is_killed else self._logs.cause(record.spec.replica_id, record.log_began_at)
        return f"{ended}: {cause}" if cause else ended

    def _end_marked(self, is_stray: Callable[[str], bool]) -> None:
        """An agent that died between starting an engine and writing it down left one that holds port and memory."""
        for marker, identity in find_marked(_MARKER):
            if is_stray(marker):
                log.warning("ending process %d, an engine that was never written down", identity.pid)
                kill_group(identity)

    def _reap(self, pid: int) -> None:
        if self._exit_details.get(pid) != "":
            return
        with suppress(ChildProcessError):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._exit_details[pid] = _describe(os.waitstatus_to_exitcode(status))

    def _path(self, replica_id: str) -> Path:
        return self._directory / f"{_PREFIX}{replica_id}{_SUFFIX}"

    def _find(self, replica_id: str) -> _Record | None:
        return self._read(self._path(replica_id))

    def _read(self, path: Path) -> _Record | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=_Record)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            log.warning("%s is not a pid file of ours: %s", path, error)
            return None

    def _write(self, record: _Record) -> None:
        write_whole(self._path(record.spec.replica_id), msgspec.json.encode(record))


def _spawn(argv: list[str], env: dict[str, str], output: int) -> int:
    """A session of its own, so that neither our end nor a Ctrl-C at our terminal reaches it."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    return os.posix_spawnp(argv[0], argv, env, file_actions=actions, setsid=True)


def _describe(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    return f"ended by {signal.Signals(-status).name}"
