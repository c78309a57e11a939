"""A rollout as the steps that it takes, and where it is on them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from apps.deployments.policies.rollout import Rollout

DONE, NOW, NEXT, HELD = "done", "now", "next", "held"
_LEVELS = {DONE: "ok", NOW: "warning", NEXT: "unknown", HELD: "breach"}


@dataclass(frozen=True, kw_only=True)
class Step:
    """`state` is done, now, next, or held where the rollout is stuck or paused."""

    title: str
    detail: str
    state: str

    @property
    def level(self) -> str:
        return _LEVELS[self.state]


@dataclass(frozen=True, kw_only=True)
class Rung:
    title: str
    detail: str
    is_done: bool


def ladder_of(rollout: Rollout, *, is_routed: bool, is_first: bool) -> list[Step]:
    """Every rung below the first that is not done is done; a first revision has nobody to replace."""
    rungs = [*_rising(rollout), *([] if is_first else _replacing(rollout, is_routed=is_routed))]
    reached = next((index for index, rung in enumerate(rungs) if not rung.is_done), len(rungs))
    if rollout.state == "done":
        reached = len(rungs)
    here = HELD if rollout.state in {"stuck", "paused"} else NOW
    states = [DONE] * reached + [here] + [NEXT] * len(rungs)
    return [Step(title=rung.title, detail=rung.detail, state=state) for rung, state in zip(rungs, states, strict=False)]


def share_of_newer(rollout: Rollout) -> float | None:
    """How many per cent of the replicas that answer are of the newest revision. None: nobody answers."""
    ready = rollout.newer_ready_count + rollout.older_ready_count
    return 100 * rollout.newer_ready_count / ready if ready else None


def _rising(rollout: Rollout) -> Iterator[Rung]:
    placed, ready, wanted = rollout.newer_placed_count, rollout.newer_ready_count, rollout.wanted_count
    yield Rung(title="Made and placed", detail=f"{placed} of {wanted}", is_done=placed >= wanted)
    yield Rung(title="Answered a real request", detail=f"{ready} of {wanted}", is_done=ready >= wanted)


def _replacing(rollout: Rollout, *, is_routed: bool) -> Iterator[Rung]:
    known = "known to every gateway" if is_routed else "not yet known to every gateway"
    yield Rung(title="Routed", detail=known, is_done=is_routed)
    serve, left = rollout.older_ready_count, rollout.older_count
    yield Rung(title="Those of before serve no more", detail=f"{serve} still serve", is_done=not serve)
    yield Rung(title="Those of before have gone", detail=f"{left} left", is_done=not left)
