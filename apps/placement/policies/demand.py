"""What a replica asks of the fleet, and the place it is given. Values only."""

from dataclasses import dataclass, field
from uuid import UUID

from apps.placement.policies.fleet import CPU, GPU, AcceleratorView

SPREAD, PACK = "spread", "pack"
APART_BY_NODE = "node"
_SHARE_OF_UNKNOWN = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What fits where, without regard to whose replica it is: replicas of one shape fit the same places.

    A replica is `pipeline_parallel` stages of `tensor_parallel` accelerators of the kind `on`, the stages of one GPU
    model. `memory_bytes` is what it needs on each, None when nobody knows; on GPU models where it was measured,
    `memory_by_model`. An exclusive one shares no accelerator; any other reserves `memory_share` of each accelerator's
    memory, or where that is None, what it needs.
    Empty `models`, `profile` and `labels` allow all; `max_usd_per_h` is for one accelerator.
    `may_span`: its stages may be on several nodes. `apart` keeps replicas of one deployment out of each other's "node",
    or of each other's value of that label.
    """

    engine: str
    on: str = GPU
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    memory_bytes: int | None = None
    memory_by_model: tuple[tuple[str, int], ...] = ()
    memory_share: float | None = None
    is_exclusive: bool = True
    needs_nvlink: bool = False
    may_span: bool = True
    models: tuple[str, ...] = ()
    profile: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    max_usd_per_h: float | None = None
    strategy: str = SPREAD
    apart: str = ""

    @property
    def accelerator_count(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def least_bytes(self) -> int:
        """No accelerator does with less."""
        return min([self.memory_bytes or 0, *(each for _, each in self.memory_by_model)])

    def needed_bytes(self, accelerator: AcceleratorView) -> int | None:
        for model, measured_bytes in self.memory_by_model:
            if model == accelerator.model:
                return measured_bytes
        return self.memory_bytes

    def reserved_bytes(self, accelerator: AcceleratorView) -> int:
        """Of a GPU, a replica of unknown size is given nearly all."""
        if self.memory_share is not None and accelerator.memory_bytes is not None:
            return int(self.memory_share * accelerator.memory_bytes)
        needed = self.needed_bytes(accelerator)
        if needed is None and self.on != CPU:
            return int(_SHARE_OF_UNKNOWN * (accelerator.memory_bytes or 0))
        return needed or 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """`weights_key` names the weights that it loads; `weights_bytes` must be fetched where they are not on the disk.

    0 is nothing to fetch, or unknown.

    `avoids` are deployments that it must not share a node with.
    """

    replica_id: UUID
    deployment_id: UUID
    shape: Shape
    weights_key: str = ""
    weights_bytes: int = 0
    avoids: tuple[UUID, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """Accelerators of one node; `keys` in the order of the ranks."""

    node_id: UUID
    keys: tuple[str, ...]


def nodes_of(stages: tuple[Stage, ...]) -> tuple[UUID, ...]:
    """Each once, in the order of the stages."""
    return tuple(dict.fromkeys(stage.node_id for stage in stages))


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """A replica's place: one stage, or as many as its pipeline has, the first one leading.

    `usd_per_h` is what it adds to the cost of the plan (objective.py says of what that consists).
    """

    demand: Demand
    stages: tuple[Stage, ...]
    usd_per_h: float

    @property
    def node_id(self) -> UUID:
        return self.stages[0].node_id

    @property
    def node_ids(self) -> tuple[UUID, ...]:
        return nodes_of(self.stages)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`unplaced` in the order they were asked for. `cost_usd_per_h` is the objective, the unplaced included."""

    assignments: list[Assignment]
    unplaced: list[Demand] = field(default_factory=list)
    cost_usd_per_h: float = 0.0
