"""Trails in words for people: `Explainer` tells one, `DecisionNews` those that the control plane is told of."""

from collections import deque
from collections.abc import Callable, Iterable
from math import isfinite

from workers.contracts.decisions import Choice, DecisionFile, DecisionStep, EndpointScore, RequestDecision
from workers.gateway.driving.trails import Trail, Trails
from workers.scheduling.decision import Considered, Decision

MAX_A_SECOND = 64
MAX_KEPT = 256
WAITED = frozenset(("kept", "parked", "late"))


class Explainer:
    """`monotonic` is the clock of trails, `unix_time` that of people."""

    def __init__(self, monotonic: Callable[[], float], unix_time: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._unix_time = unix_time

    def explain(self, trail: Trail) -> RequestDecision:
        request = trail.request
        epoch = self._unix_time() - self._monotonic()
        steps = trail.steps
        return RequestDecision(
            request_id=trail.label,
            tenant_id=trail.tenant_id,
            service_class=trail.service_class,
            version_id=request.version_id,
            arrived_at=epoch + steps[0][1],
            is_over=trail.is_over,
            rank=request.rank,
            fairness_account=request.tenant_id.removeprefix(trail.tenant_id).removeprefix("/"),
            tenant_weight=request.tenant_weight,
            weight=request.weight,
            prompt_tokens=request.prompt_tokens,
            predicted_output_tokens=request.predicted_output_tokens,
            prefix_blocks=len(request.prefix_blocks),
            told_blocks=request.told_blocks,
            ttft_slo_s=request.ttft_slo_s,
            tpot_slo_s=request.tpot_slo_s,
            deadline_at=None if request.deadline_at is None else epoch + request.deadline_at,
            workflow_id=request.workflow_id.removeprefix(f"{trail.tenant_id}/"),
            steps=[DecisionStep(what=what, at=epoch + at, detail=detail) for what, at, detail in steps],
            choices=[_choice(draft.decision(), epoch) for draft in list(trail.drafts)],
        )


class DecisionNews:
    """The newest MAX_KEPT of those worth telling, numbered so that a reader knows which it has."""

    def __init__(self, boot_id: str, explainer: Explainer) -> None:
        self._boot_id = boot_id
        self._explainer = explainer
        self._kept: deque[RequestDecision] = deque(maxlen=MAX_KEPT)
        self._count = 0

    def take(self, trails: Trails) -> DecisionFile | None:
        """Once a second; None when nothing has ended since."""
        chosen = choose_telling(trails.take_ended())
        if not chosen:
            return None
        self._kept.extend(map(self._explainer.explain, chosen))
        self._count += len(chosen)
        first = self._count - len(self._kept)
        return DecisionFile(boot_id=self._boot_id, first=first, decisions=list(self._kept))


def choose_telling(ended: Iterable[Trail]) -> list[Trail]:
    """At most MAX_A_SECOND: what failed, was refused, waited or was tried again, then the newest of the others."""
    trails = list(ended)
    if len(trails) <= MAX_A_SECOND:
        return trails
    trails.reverse()
    return sorted(trails, key=lambda trail: trail.is_plain)[:MAX_A_SECOND]


def _choice(decision: Decision, epoch: float) -> Choice:
    return Choice(
        at=epoch + decision.at,
        outcome=decision.outcome,
        endpoint_id=decision.endpoint_id,
        start_by=epoch + decision.start_by if isfinite(decision.start_by) else None,
        cost_s=_finite(decision.cost_s) or 0.0,
        density=_finite(decision.density),
        bid_price=_finite(decision.bid_price),
        waited_as=decision.waited_as if decision.waited_as in WAITED else "",
        reason=decision.reason,
        version_id=decision.version_id,
        considered=[_score(considered) for considered in decision.considered],
    )


def _score(considered: Considered) -> EndpointScore:
    return EndpointScore(
        endpoint_id=considered.endpoint_id,
        score_s=considered.score,
        prefill_s=considered.prefill_s,
        hit_tokens=considered.hit_tokens,
        reason=considered.reason,
    )


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
