"""Which replicas a deployment should have, and what identifies an engine process. Pure."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

PENDING = "pending"
READY = "ready"
STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class ReplicaView:
    replica_id: UUID
    state: str
    is_draining: bool
    has_node: bool
    is_lost: bool = False


@dataclass(frozen=True, kw_only=True)
class ReplicaPlan:
    create_count: int = 0
    drain: list[UUID] = field(default_factory=list)
    remove: list[UUID] = field(default_factory=list)


def plan_replicas(*, wanted: int, replicas: Sequence[ReplicaView]) -> ReplicaPlan:
    """Too many: those that serve least go first. A draining one goes once its engine has stopped or never was.

    One on a lost node is replaced and otherwise left alone: when its node is back, it counts again, and the best stay.
    """
    gone = [r.replica_id for r in replicas if r.is_draining and (r.state == STOPPED or not r.has_node)]
    active = sorted((r for r in replicas if not r.is_draining and not r.is_lost), key=_worth, reverse=True)
    surplus = active[wanted:]
    return ReplicaPlan(
        create_count=max(0, wanted - len(active)),
        drain=[r.replica_id for r in surplus if r.has_node],
        remove=gone + [r.replica_id for r in surplus if not r.has_node],
    )


def _worth(replica: ReplicaView) -> tuple[bool, bool, int]:
    """Ready before placed before pending; among equals the older one stays (UUIDv7 grows with time)."""
    return replica.state == READY, replica.has_node, -replica.replica_id.int


def spec_hash(parts: dict[str, Any]) -> str:
    """Changes when the engine process must be replaced."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
