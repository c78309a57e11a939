"""What the node's hardware is doing: GPUs by NVML, and where there are none the CPU and memory by /proc."""

import logging
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pynvml

from workers.contracts.telemetry import AcceleratorReport

log = logging.getLogger(__name__)


class Accelerators:
    """`sample` is cheap enough for once a second. A figure that the hardware does not give is None."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._gpus = _open_gpus()
        self._cpu_name = _cpu_name(proc)
        self._cpu_ticks = self._read_cpu_ticks()

    @property
    def gpu_names(self) -> list[str]:
        return [_text(pynvml.nvmlDeviceGetName(gpu)) for gpu in self._gpus]

    @property
    def memory_total_bytes(self) -> int | None:
        return self._memory().get("MemTotal")

    def sample(self) -> list[AcceleratorReport]:
        if self._gpus:
            return [_gpu_report(index, gpu) for index, gpu in enumerate(self._gpus)]
        return [self._cpu_report()]

    def close(self) -> None:
        if self._gpus:
            pynvml.nvmlShutdown()

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


def _open_gpus() -> list[Any]:
    try:
        pynvml.nvmlInit()
        return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        log.info("no GPU: %s", error)
        return []


def _gpu_report(index: int, gpu: Any) -> AcceleratorReport:
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, gpu)
    use = _ask(pynvml.nvmlDeviceGetUtilizationRates, gpu)
    milliwatts = _ask(pynvml.nvmlDeviceGetPowerUsage, gpu)
    temperature = _ask(pynvml.nvmlDeviceGetTemperature, gpu, pynvml.NVML_TEMPERATURE_GPU)
    return AcceleratorReport(
        index=index,
        kind="gpu",
        name=_text(_ask(pynvml.nvmlDeviceGetName, gpu) or "GPU"),
        memory_total_bytes=memory.total if memory else None,
        memory_used_bytes=memory.used if memory else None,
        utilisation_ratio=use.gpu / 100 if use else None,
        temperature_c=temperature,
        power_w=None if milliwatts is None else milliwatts / 1000,
    )


def _ask(question: Callable[..., Any], *arguments: Any) -> Any:
    """Not every GPU answers every question."""
    with suppress(pynvml.NVMLError):
        return question(*arguments)
    return None


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _cpu_name(proc: Path) -> str:
    for line in (proc / "cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
