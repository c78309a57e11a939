"""GPUs that are not there: a machine by its description, for trying placement out and for fleets that are simulated.

4xH100                       joined by NVLink, two NUMA nodes
8xL4/pcie                    without NVLink
1xA100-80/mig=3g.40gb+1g.10gb
2xH100/foreign=12.5          GiB of others' memory on each
"""

from collections.abc import Mapping

from msgspec import Struct

from workers.agent.hardware.gpus import GPUProcess, GPUReading

_GIB = 1024**3
_DRIVER = "described"
_FIRST_BUS, _PCIE_GENERATION, _PCIE_WIDTH = 0x3B, 5, 16
_STRANGER = 1
# Name, GiB, whether NVLink joins them; those of the catalogue (apps/fleet/policies/gpus.py).
KINDS: Mapping[str, tuple[str, int, bool]] = {
    "A10": ("NVIDIA A10", 24, False),
    "L4": ("NVIDIA L4", 24, False),
    "L40S": ("NVIDIA L40S", 45, False),
    "A100-40": ("NVIDIA A100-SXM4-40GB", 40, True),
    "A100-80": ("NVIDIA A100-SXM4-80GB", 80, True),
    "H100": ("NVIDIA H100 80GB HBM3", 80, True),
    "H200": ("NVIDIA H200", 141, True),
    "B200": ("NVIDIA B200", 180, True),
    "GH200": ("NVIDIA GH200 96GB", 96, True),
    "MI300X": ("AMD Instinct MI300X", 192, True),
    "RTX4090": ("NVIDIA GeForce RTX 4090", 24, False),
}


class DescriptionError(ValueError):
    """The message says what a description looks like."""


class Machine(Struct, frozen=True, kw_only=True):
    kind: str
    count: int
    has_nvlink: bool
    profiles: tuple[str, ...] = ()
    foreign_gib: float = 0.0


class DescribedGPUs:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read(self) -> list[GPUReading]:
        return [each for index in range(self._machine.count) for each in self._read_one(index)]

    def close(self) -> None:
        """There is nothing to close."""

    def _read_one(self, index: int) -> list[GPUReading]:
        if self._machine.profiles:
            return [self._slice(index, number, profile) for number, profile in enumerate(self._machine.profiles)]
        name, gib, _ = KINDS[self._machine.kind]
        others = tuple(each for each in range(self._machine.count) if each != index)
        return [self._reading(index, str(index), name, gib, links=others if self._machine.has_nvlink else ())]

    def _slice(self, index: int, number: int, profile: str) -> GPUReading:
        gib = int(profile.partition(".")[2].removesuffix("gb"))
        name = f"{KINDS[self._machine.kind][0]} MIG {profile}"
        return self._reading(index, f"MIG-{index}-{number}", name, gib, profile=profile)

    def _reading(
        self, index: int, key: str, name: str, gib: int, *, profile: str = "", links: tuple[int, ...] = ()
    ) -> GPUReading:
        foreign = int(self._machine.foreign_gib * _GIB)
        return GPUReading(
            index=index,
            key=key,
            name=name,
            profile=profile,
            memory_total_bytes=gib * _GIB,
            memory_used_bytes=foreign,
            utilisation_ratio=0.0,
            links=links,
            numa=index * 2 // max(2, self._machine.count),
            driver_version=_DRIVER,
            processes=(GPUProcess(pid=_STRANGER, memory_bytes=foreign),) if foreign else (),
            pci_bus_id=f"00000000:{_FIRST_BUS + index:02x}:00.0",
            pcie_generation=_PCIE_GENERATION,
            pcie_width=_PCIE_WIDTH,
        )


def read_machine(text: str) -> Machine:
    """Raises DescriptionError."""
    size, *options = text.split("/")
    count, _, kind = size.partition("x")
    if not count.isdecimal() or not 0 < int(count) <= 16 or kind not in KINDS:  # noqa: PLR2004 - the largest board
        raise DescriptionError(f"{text!r} should look like 4xH100, with one of {', '.join(KINDS)}")
    facts = dict(option.partition("=")[::2] for option in options)
    if set(facts) - {"pcie", "mig", "foreign"}:
        raise DescriptionError(f"{text!r}: after a slash come pcie, mig=… or foreign=…")
    profiles = tuple(facts["mig"].split("+")) if "mig" in facts else ()
    if not all(_is_profile(profile) for profile in profiles):
        raise DescriptionError(f"{text!r}: a MIG profile looks like 3g.40gb")
    return Machine(
        kind=kind,
        count=int(count),
        has_nvlink=KINDS[kind][2] and "pcie" not in facts,
        profiles=profiles,
        foreign_gib=_number(text, facts.get("foreign", "0")),
    )


def _is_profile(text: str) -> bool:
    compute, _, memory = text.partition(".")
    return compute.removesuffix("g").isdecimal() and memory.endswith("gb") and memory.removesuffix("gb").isdecimal()


def _number(text: str, figure: str) -> float:
    try:
        return float(figure)
    except ValueError as error:
        raise DescriptionError(f"{text!r}: foreign= takes GiB") from error
