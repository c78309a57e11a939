"""A request as a scheduler is told of it."""

from math import isnan

USUAL_BLOCK_TOKENS = 16
LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 1e6
MOST_TOKENS = 1e9


class Request:
    """One request, as the driver knows it when it arrives. `request_id` is the driver's own, unique while alive.

    `rank` is that of the service class, 0 first. Everything from `prompt_tokens` on may be absent:

    `prompt_tokens` and `predicted_output_tokens` are estimates, 0 unknown. `prefix_blocks` number the leading blocks
    of `block_tokens` tokens each; equal numbers mean an equal prompt up to and including the block. The first
    `told_blocks` of them are those that engines' KV events are about, None all. `ttft_slo_s`, from the arrival, and
    `tpot_slo_s`, a token, are limits; None for none, and 0, too. `deadline_at` is when the answer, or the whole
    workflow that the call belongs to, must be complete: the earlier of both. `weight` is the value of an answer in
    time, against other requests; None takes that of the class. `max_queued_tokens_of_tenant` bounds what waits of a
    tenant as `max_queued_of_tenant` does, None: not.

    What no request can be is taken as what it comes nearest to: no number as absent, the endless as MOST.

    `alternatives` are cheaper versions, in order of preference, that it may run on when its own cannot make it.

    Of its workflow: `workflow_deadline_at` is when all of it must be complete, 0 for never; None is the same as
    `deadline_at`. `workflow_steps` calls are expected in all, 0 unknown; `workflow_tokens` and
    `workflow_picodollars` are budgets of the whole, None for none. Money needs the two prices.
    """

    __slots__ = (
        "alternatives",
        "arrived_at",
        "block_tokens",
        "deadline_at",
        "max_queued_of_tenant",
        "max_queued_tokens_of_tenant",
        "picodollars_per_input_token",
        "picodollars_per_output_token",
        "predicted_output_tokens",
        "prefix_blocks",
        "prompt_tokens",
        "rank",
        "request_id",
        "tenant_id",
        "tenant_weight",
        "told_blocks",
        "tpot_slo_s",
        "ttft_slo_s",
        "version_id",
        "weight",
        "workflow_deadline_at",
        "workflow_id",
        "workflow_picodollars",
        "workflow_steps",
        "workflow_tokens",
    )

    def __init__(
        self,
        *,
        request_id: int,
        version_id: str,
        tenant_id: str,
        rank: int,
        max_queued_of_tenant: int,
        arrived_at: float,
        prompt_tokens: int = 0,
        predicted_output_tokens: float = 0.0,
        prefix_blocks: tuple[int, ...] = (),
        block_tokens: int = USUAL_BLOCK_TOKENS,
        told_blocks: int | None = None,
        ttft_slo_s: float | None = None,
        tpot_slo_s: float | None = None,
        deadline_at: float | None = None,
        weight: float | None = None,
        tenant_weight: float = 1.0,
        workflow_id: str = "",
        max_queued_tokens_of_tenant: float | None = None,
        alternatives: tuple[str, ...] = (),
        workflow_deadline_at: float | None = None,
        workflow_steps: int = 0,
        workflow_tokens: int | None = None,
        workflow_picodollars: int | None = None,
        picodollars_per_input_token: int = 0,
        picodollars_per_output_token: int = 0,
    ) -> None:
        self.request_id = request_id
        self.version_id = version_id
        self.tenant_id = tenant_id
        self.rank = rank
        self.max_queued_of_tenant = max_queued_of_tenant
        self.arrived_at = arrived_at
        self.max_queued_tokens_of_tenant = max_queued_tokens_of_tenant
        self.alternatives = alternatives
        self.weight = None if weight is None else sound_weight(weight)
        self.tenant_weight = sound_weight(tenant_weight)
        self._set_size(prompt_tokens, predicted_output_tokens, prefix_blocks, block_tokens, told_blocks)
        self._set_limits(ttft_slo_s, tpot_slo_s, deadline_at)
        self._set_workflow(workflow_id, workflow_deadline_at, workflow_steps, workflow_tokens, workflow_picodollars)
        self.picodollars_per_input_token = picodollars_per_input_token
        self.picodollars_per_output_token = picodollars_per_output_token

    def _set_size(
        self, prompt: int, predicted: float, blocks: tuple[int, ...], block_tokens: int, told_blocks: int | None
    ) -> None:
        self.prompt_tokens = min(max(0, prompt), int(MOST_TOKENS))
        self.predicted_output_tokens = _tokens(predicted)
        self.prefix_blocks = blocks
        self.block_tokens = block_tokens if block_tokens > 0 else USUAL_BLOCK_TOKENS
        self.told_blocks = told_blocks

    def _set_limits(self, ttft_slo_s: float | None, tpot_slo_s: float | None, deadline_at: float | None) -> None:
        self.ttft_slo_s = _limit(ttft_slo_s)
        self.tpot_slo_s = _limit(tpot_slo_s)
        self.deadline_at = None if deadline_at is None or isnan(deadline_at) else deadline_at

    def _set_workflow(
        self, workflow_id: str, deadline_at: float | None, steps: int, tokens: int | None, picodollars: int | None
    ) -> None:
        self.workflow_id = workflow_id
        self.workflow_deadline_at = deadline_at
        self.workflow_steps = steps
        self.workflow_tokens = tokens
        self.workflow_picodollars = picodollars


def sound_weight(weight: float) -> float:
    """Nobody weighs nothing, or all: what is divided by a weight, summed or sorted by it, would have no place."""
    return min(max(LEAST_WEIGHT, weight), MOST_WEIGHT)


def _limit(seconds: float | None) -> float | None:
    """Neither 0, which nothing could meet, nor what is not a number."""
    return seconds if seconds is not None and seconds > 0 else None


def _tokens(predicted: float) -> float:
    if predicted > MOST_TOKENS:
        return MOST_TOKENS
    return predicted if predicted > 0 else 0.0
