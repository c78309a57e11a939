"""Which node a replica goes to. Pure: every node that is not taken says why."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID

ONLINE = "online"
HIGHEST_PORT = 65535


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """`engines` is what can run there, None when the agent has not said. `replica_counts` is by deployment."""

    node_id: UUID
    name: str
    state: str
    is_cordoned: bool = False
    engines: frozenset[str] | None = None
    replica_counts: dict[UUID, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rejection:
    node_id: UUID
    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Placement:
    node_id: UUID | None
    rejections: list[Rejection]

    def explain(self) -> str:
        if not self.rejections:
            return "no node has joined"
        return "; ".join(f"{rejection.name}: {rejection.reason}" for rejection in self.rejections)


def place(*, deployment_id: UUID, engine: str, nodes: Sequence[NodeView]) -> Placement:
    """Spreads: the node with the fewest replicas of this deployment, then the fewest at all, then by name."""
    reasons = {node.node_id: _reason_against(node, engine) for node in nodes}
    fit = [node for node in nodes if not reasons[node.node_id]]
    rejections = [
        Rejection(node_id=node.node_id, name=node.name, reason=reason)
        for node in nodes
        if (reason := reasons[node.node_id])
    ]
    best = min(fit, key=lambda node: _crowding(node, deployment_id), default=None)
    return Placement(node_id=best.node_id if best else None, rejections=rejections)


def _reason_against(node: NodeView, engine: str) -> str:
    if node.is_cordoned:
        return "is cordoned"
    if node.state != ONLINE:
        return f"is {node.state}"
    if node.engines is not None and engine not in node.engines:
        return f"cannot run {engine}"
    return ""


def _crowding(node: NodeView, deployment_id: UUID) -> tuple[int, int, str]:
    return node.replica_counts.get(deployment_id, 0), sum(node.replica_counts.values()), node.name


def lowest_free_port(*, base: int, taken: Collection[int]) -> int | None:
    return next((port for port in range(base, HIGHEST_PORT + 1) if port not in taken), None)
