"""Why a request was scheduled as it was: told by its gateway, kept by the control plane, shown to its tenant."""

from msgspec import Struct, field


class DecisionStep(Struct, frozen=True, kw_only=True):
    """One step. `what` is arrived, queued, degraded, sent, first_token, failed, migrated, cancelled or how it ended.

    It ended completed, withdrawn, refused, rejected (for what it asked) or failed. `at` is in Unix seconds; `detail` is
    the endpoint of what was sent or failed, the code of what was refused, rejected or cancelled, and the version of
    what was degraded.
    """

    what: str
    at: float
    detail: str = ""


class EndpointScore(Struct, frozen=True, kw_only=True):
    """One that was considered. `score_s` is predicted seconds, the least wins; None when `reason` ruled it out.

    `hit_tokens` of the prompt it was believed to have cached, the rest would take it `prefill_s`.
    """

    endpoint_id: str
    score_s: float | None = None
    prefill_s: float = 0.0
    hit_tokens: int = 0
    reason: str = ""


class Choice(Struct, frozen=True, kw_only=True):
    """One decision of the scheduler. `start_by` is the latest start it was judged by, in Unix seconds, None for none.

    `cost_s` is what it takes of an engine, `density` its value over that, `bid_price` the density below which nothing
    fitted. `waited_as` says what the plan made of it while it waited: kept, parked or late. `version_id` is the one
    whose engines were considered; "" where that is not told.
    """

    at: float
    outcome: str
    endpoint_id: str = ""
    start_by: float | None = None
    cost_s: float = 0.0
    density: float | None = None
    bid_price: float | None = None
    waited_as: str = ""
    reason: str = ""
    version_id: str = ""
    considered: list[EndpointScore] = field(default_factory=list)


class RequestDecision(Struct, frozen=True, kw_only=True):
    """Limits and times are None where there is none. `is_over` is False while the request is alive.

    One that was refused or rejected before it could wait has no choices and expects nothing. Of the `prefix_blocks`
    the first `told_blocks` were known by engines' KV events, None: none of its engines is followed.
    """

    request_id: str
    tenant_id: str
    service_class: str
    version_id: str
    arrived_at: float
    is_over: bool
    rank: int = 0
    fairness_account: str = ""
    tenant_weight: float = 1.0
    weight: float | None = None
    prompt_tokens: int = 0
    predicted_output_tokens: float = 0.0
    prefix_blocks: int = 0
    told_blocks: int | None = None
    ttft_slo_s: float | None = None
    tpot_slo_s: float | None = None
    deadline_at: float | None = None
    workflow_id: str = ""
    steps: list[DecisionStep] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)


class DecisionFile(Struct, frozen=True, kw_only=True):
    """The newest that a gateway process tells of; the first has the number `first`, the next one more."""

    boot_id: str
    first: int = 0
    decisions: list[RequestDecision] = field(default_factory=list)
