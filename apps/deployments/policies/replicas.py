"""Which replicas a deployment should have, and what identifies an engine process. Pure.

A rolling update is no mode: older replicas beside a newer revision are what moves it. Each turn makes as many of the
newest as there is room for, and lets as many of the others go as can be spared, so it goes on from wherever it was.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

PENDING = "pending"
READY = "ready"
DEGRADED = "degraded"
SLEEPING = "sleeping"
STOPPED = "stopped"
UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class ReplicaView:
    """`is_current`: of the newest revision. `is_asleep`: it should sleep; `can_wake`: there is room to."""

    replica_id: UUID
    state: str
    is_draining: bool
    has_node: bool
    is_lost: bool = False
    is_current: bool = True
    is_asleep: bool = False
    can_wake: bool = True


@dataclass(frozen=True, kw_only=True)
class Pace:
    """At most `max_surge` more than wanted, at most `max_unavailable` fewer that are ready.

    `may_retire` False: not every gateway knows the newest version yet, so what serves stays.
    """

    max_surge: int = 1
    max_unavailable: int = 0
    is_paused: bool = False
    may_retire: bool = True


@dataclass(frozen=True, kw_only=True)
class ReplicaPlan:
    """`create_count` are of the newest revision, `create_like` are copies of those. `retire` drain for a rollout."""

    create_count: int = 0
    create_like: list[UUID] = field(default_factory=list)
    drain: list[UUID] = field(default_factory=list)
    retire: list[UUID] = field(default_factory=list)
    remove: list[UUID] = field(default_factory=list)
    sleep: list[UUID] = field(default_factory=list)
    wake: list[UUID] = field(default_factory=list)


_NO_LIMITS = Pace()


def plan_replicas(
    *, wanted: int, replicas: Sequence[ReplicaView], pace: Pace = _NO_LIMITS, keeps_asleep: bool = False
) -> ReplicaPlan:
    """Too many: those that serve least go first. A draining one goes once its engine has stopped or never was.

    One on a lost node is replaced and otherwise left alone: when its node is back, it counts again, and the best stay.
    """
    gone = [r.replica_id for r in replicas if r.is_draining and (r.state == STOPPED or not r.has_node)]
    present = [r for r in replicas if not r.is_draining and not r.is_lost]
    active = sorted((r for r in present if not r.is_asleep), key=_worth, reverse=True)
    asleep = sorted((r for r in present if r.is_asleep), key=_worth, reverse=True)
    is_rolling = any(not r.is_current for r in active) and not pace.is_paused
    plan = _roll(wanted, active, pace) if is_rolling else _keep(wanted, active, keeps_asleep=keeps_asleep)
    return _with_sleepers(plan, gone, asleep, keeps_asleep=keeps_asleep)


def _keep(wanted: int, active: Sequence[ReplicaView], *, keeps_asleep: bool) -> ReplicaPlan:
    """While a rollout is paused, what is missing is made like what is there."""
    surplus, missing = active[wanted:], max(0, wanted - len(active))
    models = [r.replica_id for r in active if not r.is_current][:1]
    sleep = [r.replica_id for r in surplus if keeps_asleep and r.is_current and r.state == READY]
    return ReplicaPlan(
        create_count=0 if models else missing,
        create_like=models * missing,
        sleep=sleep,
        drain=[r.replica_id for r in surplus if r.has_node and r.replica_id not in sleep],
        remove=[r.replica_id for r in surplus if not r.has_node],
    )


def _roll(wanted: int, active: Sequence[ReplicaView], pace: Pace) -> ReplicaPlan:
    newer = [r for r in active if r.is_current]
    older = [r for r in active if not r.is_current]
    room = wanted + pace.max_surge - len(active)
    surplus = newer[wanted:]
    leaving = [*_spared(wanted, newer[:wanted], older, pace), *(r for r in older if _serves_nobody(r))]
    return ReplicaPlan(
        create_count=max(0, min(wanted - len(newer), room)),
        retire=[r.replica_id for r in leaving if r.has_node],
        drain=[r.replica_id for r in surplus if r.has_node],
        remove=[r.replica_id for r in [*leaving, *surplus] if not r.has_node],
    )


def _spared(
    wanted: int, newer: Sequence[ReplicaView], older: Sequence[ReplicaView], pace: Pace
) -> Sequence[ReplicaView]:
    """What of before is not needed any more; those that are worth least come last, and go first."""
    ready = [r for r in older if r.state == READY]
    spare = len(ready) + sum(r.state == READY for r in newer) - max(0, wanted - pace.max_unavailable)
    if spare < 0 or (wanted and not pace.may_retire):
        return []
    return [*(r for r in older if r.state == DEGRADED), *ready[max(0, len(ready) - spare) :]]


def _serves_nobody(replica: ReplicaView) -> bool:
    """Of one that is unknown nobody can say that."""
    return replica.state not in (READY, DEGRADED, UNKNOWN)


def _with_sleepers(
    plan: ReplicaPlan, gone: list[UUID], asleep: Sequence[ReplicaView], *, keeps_asleep: bool
) -> ReplicaPlan:
    """A sleeping one is woken before another is made. One that cannot wake where it is, or is out of date, goes.

    So does one whose engine has ended: there is nothing left to wake, and its memory would lie idle.
    """
    useless = [r for r in asleep if not r.is_current or not r.has_node or r.state == STOPPED]
    fit = [r for r in asleep if r not in useless and r.can_wake][: plan.create_count]
    missing = plan.create_count - len(fit)
    blocked = [r for r in asleep if r not in useless and not r.can_wake][:missing]
    rest = [r for r in asleep if r not in useless and r not in fit and r not in blocked]
    leaving = [*useless, *blocked, *(rest if not keeps_asleep else [])]
    return ReplicaPlan(
        create_count=missing,
        create_like=plan.create_like,
        retire=plan.retire,
        sleep=plan.sleep,
        wake=[r.replica_id for r in fit],
        drain=[*plan.drain, *(r.replica_id for r in leaving if r.has_node)],
        remove=[*gone, *plan.remove, *(r.replica_id for r in leaving if not r.has_node)],
    )


def _worth(replica: ReplicaView) -> tuple[bool, bool, bool, int]:
    """Ready before placed before pending; newest revision first; among equals the older one (UUIDv7 grows)."""
    return replica.state == READY, replica.has_node, replica.is_current, -replica.replica_id.int


def spec_hash(parts: dict[str, Any]) -> str:
    """Changes when the engine process must be replaced."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
