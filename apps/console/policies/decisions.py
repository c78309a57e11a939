"""Why a request was scheduled as it was, in words and rows for its page. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from workers.contracts.decisions import Choice, DecisionStep, EndpointScore, RequestDecision

WORDS = {
    "arrived": "arrived and was admitted",
    "queued": "waited in the queue",
    "degraded": "may run on a cheaper version",
    "sent": "was sent to an engine",
    "migrated": "went on at another engine",
    "first_token": "had its first token",
    "failed": "the engine failed it",
    "cancelled": "was cancelled",
    "completed": "was complete",
    "withdrawn": "the client left",
    "refused": "was refused",
    "rejected": "asked for what cannot be",
}
# With these, the detail of a step is a code, and not the name of an engine.
_WITH_CODES = ("refused", "rejected", "cancelled")
REFUSALS = {
    "queue_full": "too much of its tenant waited already",
    "no_endpoint": "no engine was up",
    "attempts_exhausted": "engines failed it as often as it may be tried",
    "cannot_meet_deadline": "it could no longer be in time",
    "workflow_deadline": "its workflow is past its deadline",
    "workflow_budget": "its workflow has used up its budget",
}
WAITED_AS = {
    "kept": "it could be in time",
    "parked": "others were worth more of the time there was",
    "late": "it could not be in time any more",
}


@dataclass(frozen=True)
class Line:
    """One step; `after_ms` counts from the arrival."""

    text: str
    after_ms: float
    detail: str


@dataclass(frozen=True)
class Row:
    """One endpoint that was considered."""

    name: str
    score_ms: float | None
    prefill_ms: float
    hit_tokens: int
    reason: str
    is_chosen: bool


@dataclass(frozen=True)
class Table:
    """One decision of the scheduler."""

    title: str
    after_ms: float
    note: str
    rows: list[Row]


@dataclass(frozen=True)
class Panel:
    terms: list[tuple[str, str]]
    lines: list[Line]
    tables: list[Table]


def panel_of(decision: RequestDecision, endpoint_names: Mapping[str, str]) -> Panel:
    """`endpoint_names` by endpoint id; one without a name goes by the beginning of its id."""
    return Panel(
        terms=_terms(decision),
        lines=[_line(step, decision, endpoint_names) for step in decision.steps],
        tables=[_table(choice, decision, endpoint_names) for choice in decision.choices],
    )


def endpoint_ids_of(decision: RequestDecision) -> set[str]:
    chosen = {choice.endpoint_id for choice in decision.choices}
    considered = {score.endpoint_id for choice in decision.choices for score in choice.considered}
    named = {step.detail for step in decision.steps if step.what not in _WITH_CODES}
    return (chosen | considered | named) - {""}


def _terms(decision: RequestDecision) -> list[tuple[str, str]]:
    limits = [
        f"first token in {decision.ttft_slo_s:g} s" if decision.ttft_slo_s is not None else "",
        f"then one each {1000 * decision.tpot_slo_s:g} ms" if decision.tpot_slo_s is not None else "",
        f"complete in {decision.deadline_at - decision.arrived_at:.1f} s" if decision.deadline_at is not None else "",
    ]
    weight = f", worth {decision.weight:g}" if decision.weight is not None else ""
    terms = [
        ("Class", f"rank {decision.rank}, weight of its tenant {decision.tenant_weight:g}{weight}"),
        ("Limits", ", ".join(filter(None, limits)) or "none"),
        ("Expected", _expected(decision) if decision.prompt_tokens else ""),
        ("Prefix", _prefix(decision) if decision.prompt_tokens else ""),
        ("Workflow", decision.workflow_id),
        ("Fairness flow", decision.fairness_account),
    ]
    return [(name, text) for name, text in terms if text]


def _line(step: DecisionStep, decision: RequestDecision, names: Mapping[str, str]) -> Line:
    text = WORDS.get(step.what, step.what)
    if step.what == "arrived" and not decision.choices and decision.is_over:
        text = "arrived"
    return Line(text, 1000 * (step.at - decision.arrived_at), _detail(step, names))


def _detail(step: DecisionStep, names: Mapping[str, str]) -> str:
    if step.what in _WITH_CODES:
        return REFUSALS.get(step.detail) or step.detail.replace("_", " ")
    return step.detail if step.what == "degraded" or not step.detail else _name(step.detail, names)


def _expected(decision: RequestDecision) -> str:
    return f"{decision.prompt_tokens} tokens in, {decision.predicted_output_tokens:.0f} out"


def _prefix(decision: RequestDecision) -> str:
    if not decision.prefix_blocks:
        return "not looked up"
    looked_up = f"{decision.prefix_blocks} blocks looked up"
    if decision.told_blocks is None:
        return f"{looked_up}, in what was sent to each engine"
    return f"{looked_up}, {decision.told_blocks} of them by what engines say they have cached"


def _table(choice: Choice, decision: RequestDecision, names: Mapping[str, str]) -> Table:
    notes = [WAITED_AS.get(choice.waited_as, ""), choice.reason.replace("_", " ")]
    if choice.start_by is not None:
        notes.append(f"latest start after {choice.start_by - decision.arrived_at:.2f} s")
    if choice.bid_price is not None and choice.density is not None and choice.bid_price > 0:
        notes.append(f"worth {choice.density:.3g} a second, where {choice.bid_price:.3g} fitted")
    return Table(
        title=choice.outcome,
        after_ms=1000 * (choice.at - decision.arrived_at),
        note=", ".join(filter(None, notes)),
        rows=[_row(score, choice, names) for score in choice.considered],
    )


def _row(score: EndpointScore, choice: Choice, names: Mapping[str, str]) -> Row:
    return Row(
        name=_name(score.endpoint_id, names),
        score_ms=None if score.score_s is None else 1000 * score.score_s,
        prefill_ms=1000 * score.prefill_s,
        hit_tokens=score.hit_tokens,
        reason=score.reason,
        is_chosen=score.endpoint_id == choice.endpoint_id,
    )


def _name(endpoint_id: str, names: Mapping[str, str]) -> str:
    return names.get(endpoint_id) or f"engine {endpoint_id[-6:]}"
