"""How far a deployment is on its way to its newest revision, and what it waits for. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from apps.deployments.policies.replicas import PENDING, READY, Pace

RolloutState = Literal["done", "paused", "progressing", "stuck"]


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Ready replicas of a deployment by version: one version, or during a rollout those before and the newest."""

    deployment_id: UUID
    ready: dict[UUID, int]


@dataclass(frozen=True, kw_only=True)
class Course:
    """A replica on its way. `problem` is why it does not get there: an alarm, or that it was given up."""

    is_current: bool
    state: str
    is_draining: bool
    detail: str = ""
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Counts of replicas. Placed are all that are not pending.

    `older_count` includes those that drain; `older_ready_count` are those that still serve.
    """

    state: RolloutState
    detail: str
    wanted_count: int
    newer_count: int
    newer_placed_count: int
    newer_ready_count: int
    older_count: int
    older_ready_count: int


def rollout_of(*, wanted: int, replicas: Sequence[Course], pace: Pace) -> Rollout:
    newer = [r for r in replicas if r.is_current and not r.is_draining]
    older = [r for r in replicas if not r.is_current]
    staying = [r for r in older if not r.is_draining]
    state, detail = _verdict(newer, staying, pace) if staying else _ending(newer, older, wanted)
    return Rollout(
        state=state,
        detail=detail,
        wanted_count=wanted,
        newer_count=len(newer),
        newer_placed_count=sum(r.state != PENDING for r in newer),
        newer_ready_count=_ready(newer),
        older_count=len(older),
        older_ready_count=_ready(staying),
    )


def _ending(newer: Sequence[Course], older: Sequence[Course], wanted: int) -> tuple[RolloutState, str]:
    """Nothing of before is meant to stay. Done is what answers, so a first revision is rolled out, too."""
    if older:
        problem = next((r.problem for r in older if r.problem), "")
        return ("stuck", problem) if problem else ("progressing", f"{len(older)} of before finish what they have")
    if _ready(newer) >= wanted:
        return "done", ""
    if len(newer) < wanted and all(r.state == READY for r in newer):
        return "progressing", f"{wanted - len(newer)} more are to be made"
    return _coming(newer)


def _verdict(newer: Sequence[Course], older: Sequence[Course], pace: Pace) -> tuple[RolloutState, str]:
    if pace.is_paused:
        return "paused", f"{len(newer)} are of the newest revision, {len(older)} of others"
    if not pace.may_retire and _ready(newer) and not any(r.problem for r in newer):
        return "progressing", "waits until every gateway knows the new version"
    return _coming(newer)


def _coming(newer: Sequence[Course]) -> tuple[RolloutState, str]:
    stuck = next((r for r in newer if r.problem), None)
    if stuck is not None:
        return "stuck", f"{stuck.problem}: {stuck.detail}" if stuck.detail else stuck.problem
    waiting = next((r for r in newer if r.state != READY), None)
    if waiting is None:
        return "progressing", ""
    return "progressing", f"waits for one that is {waiting.state}{': ' if waiting.detail else ''}{waiting.detail}"


def _ready(replicas: Sequence[Course]) -> int:
    return sum(r.state == READY for r in replicas)
