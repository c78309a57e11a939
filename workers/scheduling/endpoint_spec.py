"""What is known of an endpoint beforehand, and what has been learned of it, for reports."""

from typing import Literal

from msgspec import Struct

from workers.scheduling.latency.step_cost import StepCost

Warmth = Literal["warm", "loading", "asleep", "cold"]
BreakerState = Literal["closed", "paused", "open", "half_open"]


class Batching(Struct, frozen=True, kw_only=True):
    """For engines without continuous batching: the scheduler forms their batches.

    A batch is sent when it has `max_requests` or `max_tokens`, or `window_s` after its first request came; sooner
    where a deadline inside asks for it.
    """

    max_requests: int = 32
    max_tokens: int = 16_384
    window_s: float = 0.01


class EndpointSpec(Struct, frozen=True, kw_only=True):
    """What is known of an engine and its GPU before the first request.

    Without `is_speed_known` the cost is a stand-in: until the endpoint has shown its speed, nobody is refused, parked
    or called late by it.
    """

    cost: StepCost
    max_batched_tokens: int = 2048
    max_sequences: int = 256
    is_speed_known: bool = True
    batching: Batching | None = None


DEFAULT_SPEC = EndpointSpec(
    cost=StepCost(
        t_fixed_ms=1.153,
        ms_per_seq=0.00442,
        t_weight_ms=5.453,
        ms_per_token=0.017276,
        p=2.0,
        attn_fixed_ms=0.382,
        ms_per_ctx_token=4.848e-05,
        ms_per_attn_pair=1.013e-06,
        kv_capacity_tokens=450_911,
    ),
    is_speed_known=False,
)
"""An 8B model on an H100: a start for engines of which nothing is known; the factors learned do the rest."""


class EndpointState(Struct, frozen=True, kw_only=True):
    """For the console. Rates are None while nothing is known of them; errors are shares: 0.1 is ±10 %.

    `step_s` is the time per token of answers lately, `prefill_tokens_per_s` the rate beside what decodes at present.
    `silent_s` is how long ago it made progress, None while it has nothing to do.
    """

    endpoint_id: str
    version_id: str
    running: int
    prefilling: int
    warmth: Warmth
    is_draining: bool
    breaker: BreakerState
    is_stalled: bool
    silent_s: float | None
    kv_usage: float
    report_age_s: float | None
    prefill_tokens_per_s: float | None
    prefill_error: float
    prefill_observations: int
    step_s: float | None
    step_error: float
    step_observations: int


class LengthState(Struct, frozen=True, kw_only=True):
    """How long a tenant's answers are: `typical_tokens` without a prediction.

    `factor` is actual over predicted for an answer predicted at `typical_tokens`, `log_deviation` the standard error
    of a log length: within a factor of e to its power two times out of three.
    """

    tenant_id: str
    typical_tokens: float
    factor: float
    log_deviation: float
    answers: int
