"""GPUs by NVIDIA's management library. Not every GPU answers every question: what it does not say is None."""

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pynvml

from workers.agent.hardware.gpus import GPUProcess, GPUReading

log = logging.getLogger(__name__)

_MOST_LINKS = 18


class NVMLGPUs:
    """What never changes is asked once."""

    def __init__(self, sys_root: Path = Path("/sys")) -> None:
        self._handles = _open()
        self._driver = _text(_ask(pynvml.nvmlSystemGetDriverVersion) or "") if self._handles else ""
        self._links = _links_of(self._handles)
        self._numa = [_numa_of(handle, sys_root) for handle in self._handles]
        self._pcie = [_pcie_of(handle) for handle in self._handles]

    def read(self) -> list[GPUReading]:
        return [reading for index, handle in enumerate(self._handles) for reading in self._read_one(index, handle)]

    def close(self) -> None:
        if self._handles:
            pynvml.nvmlShutdown()

    def _read_one(self, index: int, handle: Any) -> list[GPUReading]:
        """A GPU that is cut into MIG slices is its slices only."""
        slices = _slices_of(handle)
        if slices:
            return [self._read_device(index, each, handle) for each in slices]
        return [self._read_device(index, handle, handle)]

    def _read_device(self, index: int, device: Any, parent: Any) -> GPUReading:
        memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, device)
        use = _ask(pynvml.nvmlDeviceGetUtilizationRates, parent)
        milliwatts = _ask(pynvml.nvmlDeviceGetPowerUsage, parent)
        is_slice = device is not parent
        name = _text(_ask(pynvml.nvmlDeviceGetName, device) or "GPU")
        return GPUReading(
            index=index,
            key=_text(_ask(pynvml.nvmlDeviceGetUUID, device) or str(index)) if is_slice else str(index),
            name=name,
            profile=name.rpartition("MIG ")[2] if is_slice else "",
            memory_total_bytes=memory.total if memory else None,
            memory_used_bytes=memory.used if memory else None,
            utilisation_ratio=use.gpu / 100 if use else None,
            temperature_c=_ask(pynvml.nvmlDeviceGetTemperature, parent, pynvml.NVML_TEMPERATURE_GPU),
            power_w=None if milliwatts is None else milliwatts / 1000,
            links=() if is_slice else self._links[index],
            numa=self._numa[index],
            driver_version=self._driver,
            processes=_processes_on(device),
            problem=_problem_of(parent),
            **self._pcie[index],
        )


def _open() -> list[Any]:
    try:
        pynvml.nvmlInit()
        return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        log.info("no GPU: %s", error)
        return []


def _slices_of(handle: Any) -> list[Any]:
    mode = _ask(pynvml.nvmlDeviceGetMigMode, handle)
    if not mode or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return []
    count = _ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    found = [_ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number) for number in range(count)]
    return [each for each in found if each is not None]


def _links_of(handles: list[Any]) -> list[tuple[int, ...]]:
    """Through a switch every GPU that is on one reaches every other."""
    numbers = {_bus_id(handle): index for index, handle in enumerate(handles)}
    ends = [_remote_ends(handle) for handle in handles]
    switched = [index for index, found in enumerate(ends) if None in found]
    return [
        tuple(sorted({numbers[end] for end in found if end in numbers} | (set(switched) if None in found else set())))
        for found in ends
    ]


def _remote_ends(handle: Any) -> list[str | None]:
    """Bus ids at the other end of each active link, None for a switch."""
    found: list[str | None] = []
    for link in range(_MOST_LINKS):
        if _ask(pynvml.nvmlDeviceGetNvLinkState, handle, link) == pynvml.NVML_FEATURE_ENABLED:
            kind = _ask(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
            remote = _ask(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            is_switch = kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
            found.append(None if is_switch or remote is None else _text(remote.busId).lower())
    return found


def _bus_id(handle: Any) -> str:
    info = _ask(pynvml.nvmlDeviceGetPciInfo, handle)
    return _text(info.busId).lower() if info else ""


def _pcie_of(handle: Any) -> dict[str, Any]:
    """What the link can: it slows down while the GPU is idle."""
    return {
        "pci_bus_id": _bus_id(handle),
        "pcie_generation": _ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        "pcie_width": _ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
    }


def _numa_of(handle: Any, sys_root: Path) -> int | None:
    """The kernel's word; it says -1 on a machine with one NUMA node."""
    domain, _, rest = _bus_id(handle).partition(":")
    path = sys_root / "bus/pci/devices" / f"{domain[-4:]}:{rest}" / "numa_node"
    with suppress(OSError, ValueError):
        number = int(path.read_text())
        return number if number >= 0 else None
    return None


def _processes_on(device: Any) -> tuple[GPUProcess, ...]:
    found = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, device) or []
    return tuple(GPUProcess(pid=each.pid, memory_bytes=each.usedGpuMemory) for each in found)


def _problem_of(handle: Any) -> str:
    """Rows that could not be remapped, or pages that wait for a reset: memory that may fail."""
    rows = _ask(pynvml.nvmlDeviceGetRemappedRows, handle)
    return "a memory row could not be remapped" if rows and rows[3] else ""


def _ask(question: Callable[..., Any], *arguments: Any) -> Any:
    with suppress(pynvml.NVMLError):
        return question(*arguments)
    return None


def _text(name: str | bytes) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else name
