"""What the planner is told of the fleet: nodes, what they compute on, and who is there already. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

ONLINE = "online"
GPU, MIG, CPU = "gpu", "mig", "cpu"


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceleratorView:
    """A whole GPU, one MIG slice of a GPU, or the host's CPU.

    `key` is the agent's name of it on its node. `memory_bytes` None is unknown, which holds nothing whose size is
    known. `foreign_bytes` are used by processes that are not ours. GPUs of one `island` talk over NVLink.
    """

    key: str
    kind: str
    model: str = ""
    memory_bytes: int | None = None
    foreign_bytes: int = 0
    island: int | None = None
    numa: int | None = None
    usd_per_h: float = 0.0
    is_healthy: bool = True
    profile: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Occupant:
    """A replica that has a place. `bytes_each` is reserved on each of `keys`; an exclusive one has them for itself.

    `avoids` are deployments that it shares no node with.

    One that is asleep only keeps what it cannot give back: it is nobody that others could not be alone beside.
    """

    replica_id: UUID
    deployment_id: UUID
    keys: tuple[str, ...]
    bytes_each: int = 0
    is_exclusive: bool = False
    is_asleep: bool = False
    avoids: tuple[UUID, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SleepingEngine:
    """An engine that has given its memory back and could be woken where it sleeps."""

    weights_key: str
    keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeView:
    """`engines` is what can run there, None when the agent has not said. `cached` are keys of weights on its disk.

    `coming` are keys of those that replicas with a place there have yet to fetch, with the bytes that are missing.
    `disk_free_bytes` None is unknown. `is_reachable`: other nodes know an address of it.
    """

    node_id: UUID
    name: str
    state: str = ONLINE
    is_cordoned: bool = False
    is_draining: bool = False
    is_reachable: bool = True
    engines: frozenset[str] | None = None
    labels: dict[str, str] = field(default_factory=dict)
    accelerators: tuple[AcceleratorView, ...] = ()
    occupants: tuple[Occupant, ...] = ()
    cached: frozenset[str] = frozenset()
    coming: Mapping[str, int] = field(default_factory=dict)
    disk_free_bytes: int | None = None
    sleeping: tuple[SleepingEngine, ...] = ()
