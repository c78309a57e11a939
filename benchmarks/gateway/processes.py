"""Processes on a core of their own, and what they use."""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

NICENESS = -10
STOP_WAIT_S = 3.0


def start(
    command: Sequence[str | Path], *, core: int, log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            preexec_fn=settle_on(core),  # noqa: PLW1509 - this program has no threads
        )


def settle_on(core: int) -> Callable[[], None]:
    """What a child does before it becomes another program: one core, ahead of others where that is allowed."""

    def settle() -> None:
        os.setsid()
        os.sched_setaffinity(0, {core})
        with suppress(OSError):
            os.nice(NICENESS)
            Path("/proc/self/autogroup").write_text(str(NICENESS))
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    return settle


def stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_WAIT_S)
    while _is_group_alive(process.pid):
        time.sleep(0.02)


def cpu_s(pid: int) -> float:
    """Exact time on a CPU of all threads of a process and its descendants that live."""
    total_ns = 0
    for member in _family(pid):
        for schedstat in Path(f"/proc/{member}/task").glob("*/schedstat"):
            with suppress(OSError):
                total_ns += int(schedstat.read_text().split()[0])
    return total_ns / 1e9


def peak_rss_mb(pid: int) -> float:
    return sum(_status_kb(member, "VmHWM") for member in _family(pid)) / 1024


def rss_mb(pid: int) -> float:
    return sum(_status_kb(member, "VmRSS") for member in _family(pid)) / 1024


def _status_kb(pid: int, name: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0


def _family(pid: int) -> list[int]:
    found, unvisited = [], [pid]
    while unvisited:
        member = unvisited.pop()
        found.append(member)
        for children in Path(f"/proc/{member}/task").glob("*/children"):
            with suppress(OSError):
                unvisited += [int(child) for child in children.read_text().split()]
    return found


def _is_group_alive(group: int) -> bool:
    with suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False
