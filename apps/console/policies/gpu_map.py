"""The fleet as a map: each accelerator with what is reserved on it, what strangers use, and who is there. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from apps.placement.policies.fleet import CPU, GPU, MIG, AcceleratorView, NodeView, Occupant

_ON_MAP = (GPU, MIG)
_WHOLE = 100


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Percentages are of its memory; None where that is unknown. `level` is the word for its colour."""

    accelerator_id: UUID | None
    key: str
    model: str
    memory_bytes: int | None
    island: int | None
    numa: int | None
    reserved_percent: int | None
    foreign_percent: int | None
    foreign_bytes: int
    names: tuple[str, ...]
    level: str
    words: str


@dataclass(frozen=True, kw_only=True)
class Row:
    node_id: UUID
    name: str
    is_open: bool
    cells: tuple[Cell, ...]


def map_of(
    nodes: Sequence[NodeView], deployment_names: Mapping[UUID, str], ids: Mapping[tuple[UUID, str], UUID]
) -> list[Row]:
    """Only nodes with GPUs are on it. `ids` are those of accelerators by node and key."""
    rows = [
        Row(
            node_id=node.node_id,
            name=node.name,
            is_open=not (node.is_cordoned or node.is_draining) and node.state == "online",
            cells=tuple(
                _cell(node, each, deployment_names, ids.get((node.node_id, each.key)))
                for each in node.accelerators
                if each.kind in _ON_MAP
            ),
        )
        for node in nodes
        if any(each.kind != CPU and each.kind in _ON_MAP for each in node.accelerators)
    ]
    return sorted(rows, key=lambda row: row.name)


def _cell(node: NodeView, accelerator: AcceleratorView, names: Mapping[UUID, str], identity: UUID | None) -> Cell:
    there = [each for each in node.occupants if accelerator.key in each.keys]
    foreign = _percent(accelerator.foreign_bytes, accelerator.memory_bytes)
    reserved = _reserved(there, accelerator, foreign)
    shown = tuple(names.get(each.deployment_id, "?") for each in there)
    return Cell(
        accelerator_id=identity,
        key=accelerator.key,
        model=accelerator.model,
        memory_bytes=accelerator.memory_bytes,
        island=accelerator.island,
        numa=accelerator.numa,
        reserved_percent=reserved,
        foreign_percent=foreign,
        foreign_bytes=accelerator.foreign_bytes,
        names=shown,
        level=_level(accelerator, there),
        words=", ".join(shown) or ("idle" if accelerator.is_healthy else "not healthy"),
    )


def _reserved(there: Sequence[Occupant], accelerator: AcceleratorView, foreign: int | None) -> int | None:
    """One that shares with nobody has all that strangers have not."""
    if any(each.is_exclusive for each in there):
        return _WHOLE - (foreign or 0)
    return _percent(sum(each.bytes_each for each in there), accelerator.memory_bytes)


def _percent(part: int, whole: int | None) -> int | None:
    return None if not whole else min(_WHOLE, round(_WHOLE * part / whole))


def _level(accelerator: AcceleratorView, there: Sequence[Occupant]) -> str:
    if not accelerator.is_healthy:
        return "breach"
    if accelerator.memory_bytes is None:
        return "unknown"
    return "ok" if there else "idle"
