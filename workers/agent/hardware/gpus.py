"""GPUs as the agent asks for them: a small port, with NVML behind it (nvml.py) or a description (described_gpus.py)."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from workers.contracts.telemetry import AcceleratorReport, ForeignProcess


class GPUProcess(Struct, frozen=True, kw_only=True):
    """`memory_bytes` None where the driver does not say, as inside many containers."""

    pid: int
    memory_bytes: int | None = None


class GPUReading(Struct, frozen=True, kw_only=True):
    """One GPU, or one MIG slice of it. `links` are indexes of GPUs that NVLink joins it to, itself left out."""

    index: int
    key: str
    name: str
    profile: str = ""
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    utilisation_ratio: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    links: tuple[int, ...] = ()
    numa: int | None = None
    driver_version: str = ""
    processes: tuple[GPUProcess, ...] = ()
    problem: str = ""
    pci_bus_id: str = ""
    pcie_generation: int | None = None
    pcie_width: int | None = None


class GPUs(Protocol):
    """`read` is cheap enough for once a second; [] where there is no GPU."""

    def read(self) -> list[GPUReading]: ...

    def close(self) -> None: ...


def islands_of(readings: Sequence[GPUReading]) -> dict[int, int]:
    """The NVLink island of each GPU that has a link, by index; an island is named by its lowest index."""
    island = {reading.index: reading.index for reading in readings}
    for _ in readings:
        for reading in readings:
            joined = [reading.index, *(index for index in reading.links if index in island)]
            lowest = min(island[index] for index in joined)
            island.update(dict.fromkeys(joined, lowest))
    linked = {index for reading in readings if reading.links for index in (reading.index, *reading.links)}
    return {index: lowest for index, lowest in island.items() if index in linked}


def report_of(
    reading: GPUReading, islands: dict[int, int], is_ours: Callable[[int], bool], name_of: Callable[[int], str]
) -> AcceleratorReport:
    strangers = [process for process in reading.processes if not is_ours(process.pid)]
    return AcceleratorReport(
        index=reading.index,
        kind="mig" if reading.profile else "gpu",
        name=reading.name,
        key=reading.key,
        profile=reading.profile,
        memory_total_bytes=reading.memory_total_bytes,
        memory_used_bytes=reading.memory_used_bytes,
        foreign_bytes=foreign_bytes(reading, is_ours),
        foreign_processes=[
            ForeignProcess(pid=each.pid, name=name_of(each.pid), memory_bytes=each.memory_bytes) for each in strangers
        ],
        utilisation_ratio=reading.utilisation_ratio,
        temperature_c=reading.temperature_c,
        power_w=reading.power_w,
        island=islands.get(reading.index),
        numa=reading.numa,
        driver_version=reading.driver_version,
        problem=reading.problem,
        nvlinks=list(reading.links),
        pci_bus_id=reading.pci_bus_id,
        pcie_generation=reading.pcie_generation,
        pcie_width=reading.pcie_width,
    )


def foreign_bytes(reading: GPUReading, is_ours: Callable[[int], bool]) -> int | None:
    """All that is in use but for our engines' part. Where that cannot be told, what strangers are known to use."""
    ours = [process.memory_bytes for process in reading.processes if is_ours(process.pid)]
    if reading.memory_used_bytes is not None and None not in ours:
        return max(0, reading.memory_used_bytes - sum(filter(None, ours)))
    strangers = [each.memory_bytes or 0 for each in reading.processes if not is_ours(each.pid)]
    return sum(strangers) if reading.processes else None
