"""What the node's hardware is doing: its GPUs, and where there are none the CPU and memory by /proc."""

import os
import platform
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from workers.agent.hardware.gpus import GPUReading, GPUs, islands_of, report_of
from workers.contracts.telemetry import AcceleratorReport


class Accelerators:
    """`sample` is cheap enough for once a second. A figure that the hardware does not give is None.

    `own_sessions` gives the process sessions that our engines lead: what else is on a GPU is foreign.
    """

    def __init__(
        self,
        gpus: GPUs,
        proc: Path = Path("/proc"),
        *,
        own_sessions: Callable[[], Collection[int]] = frozenset,
    ) -> None:
        self._proc = proc
        self._gpus = gpus
        self._own_sessions = own_sessions
        self._readings: list[GPUReading] = gpus.read()
        self._cpu_name = _cpu_name(proc)
        self._cpu_ticks = self._read_cpu_ticks()

    @property
    def gpu_names(self) -> list[str]:
        return [reading.name for reading in self._readings]

    @property
    def memory_total_bytes(self) -> int | None:
        return self._memory().get("MemTotal")

    def sample(self) -> list[AcceleratorReport]:
        if not self._readings:
            return [self._cpu_report()]
        self._readings = self._gpus.read() or self._readings
        sessions = self._own_sessions()
        islands = islands_of(self._readings)
        return [
            report_of(reading, islands, lambda pid: _session_of(pid) in sessions, self._name_of)
            for reading in self._readings
        ]

    def free_bytes(self) -> dict[str, int]:
        """Of each GPU that says so, as of now, by key."""
        if not self._readings:
            return {}
        self._readings = self._gpus.read() or self._readings
        return {
            each.key: each.memory_total_bytes - each.memory_used_bytes
            for each in self._readings
            if each.memory_total_bytes is not None and each.memory_used_bytes is not None
        }

    def used_by_session(self) -> dict[int, int]:
        """Bytes on all GPUs, of the sessions that our engines lead, as far as the driver tells them apart."""
        used: dict[int, int] = {}
        for process in (process for reading in self._readings for process in reading.processes):
            session = _session_of(process.pid)
            if session is not None and process.memory_bytes is not None:
                used[session] = used.get(session, 0) + process.memory_bytes
        return used

    def close(self) -> None:
        self._gpus.close()

    def _name_of(self, pid: int) -> str:
        with suppress(OSError):
            return (self._proc / str(pid) / "comm").read_text(errors="replace").strip()
        return ""

    def _cpu_report(self) -> AcceleratorReport:
        memory = self._memory()
        total, available = memory.get("MemTotal"), memory.get("MemAvailable")
        return AcceleratorReport(
            index=0,
            kind="cpu",
            name=self._cpu_name,
            memory_total_bytes=total,
            memory_used_bytes=None if total is None or available is None else total - available,
            utilisation_ratio=self._cpu_share(),
        )

    def _cpu_share(self) -> float | None:
        """Busy share since the last sample."""
        before, self._cpu_ticks = self._cpu_ticks, self._read_cpu_ticks()
        total = self._cpu_ticks[1] - before[1]
        return (self._cpu_ticks[0] - before[0]) / total if total > 0 else None

    def _read_cpu_ticks(self) -> tuple[int, int]:
        """Busy and all, of all CPUs; idle and waiting for disks are not busy."""
        ticks = [int(field) for field in (self._proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(ticks) - ticks[3] - ticks[4], sum(ticks)

    def _memory(self) -> dict[str, int]:
        """In bytes, though /proc/meminfo says kB."""
        rows = (line.split() for line in (self._proc / "meminfo").read_text().splitlines())
        return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) > 1}


def _session_of(pid: int) -> int | None:
    """None for a process that has ended, or that this node may not see."""
    with suppress(ProcessLookupError, PermissionError, OverflowError):
        return os.getsid(pid)
    return None


def _cpu_name(proc: Path) -> str:
    for line in (proc / "cpuinfo").read_text(errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
