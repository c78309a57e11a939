"""One simulated request, with everything the engine model and the report need to know of it."""

from workers.simulator.kv_cache import Run


class Job:
    """What is asked for comes first, what happened to it follows; times in seconds of simulated time.

    `units` are the engine's prefix units, `blocks` the gateway's (coarser) prefix blocks of `block_tokens` each.
    `deadline_at` is that of the whole workflow; a job without one has `ttft_slo_s` and `tpot_slo_s`.
    """

    __slots__ = (
        "arrived_at",
        "block_tokens",
        "blocks",
        "computed",
        "deadline_at",
        "endpoint",
        "finish_step",
        "finished_at",
        "first_token_at",
        "generated",
        "hit_tokens",
        "hit_units",
        "is_cancelled",
        "is_refused",
        "joined_step",
        "number",
        "output_tokens",
        "predicted_tokens",
        "prefill_tokens",
        "prompt_tokens",
        "rank",
        "run",
        "session",
        "tenant",
        "tpot_slo_s",
        "ttft_slo_s",
        "units",
        "weight",
    )

    def __init__(self, number: int, arrived_at: float, prompt_tokens: int, output_tokens: int) -> None:
        self.number = number
        self.arrived_at = arrived_at
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.predicted_tokens = float(output_tokens)
        self.tenant = "t"
        self.rank = 0
        self.weight = 1.0
        self.ttft_slo_s = 0.0
        self.tpot_slo_s = 0.0
        self.deadline_at: float | None = None
        self.session: int | None = None
        self.units: tuple[int, ...] = ()
        self.blocks: tuple[int, ...] = ()
        self.block_tokens = 0

        self.endpoint = ""
        self.first_token_at: float | None = None
        self.finished_at: float | None = None
        self.is_refused = False
        self.is_cancelled = False
        self.hit_tokens = 0
        self.hit_units = 0
        self.prefill_tokens = prompt_tokens
        self.computed = 0
        self.generated = 0
        self.joined_step = 0
        self.finish_step = 0
        self.run: Run | None = None

    def __repr__(self) -> str:
        return f"Job({self.number} at {self.arrived_at:.3f}, {self.prompt_tokens}→{self.output_tokens} tokens)"

    def meets_slo(self) -> bool:
        if self.first_token_at is None or self.finished_at is None:
            return False
        if self.first_token_at - self.arrived_at > self.ttft_slo_s:
            return False
        return self.tpot_s() <= self.tpot_slo_s

    def tpot_s(self) -> float:
        """Mean time per output token after the first; 0 for an answer of one token."""
        if self.first_token_at is None or self.finished_at is None or self.output_tokens < 2:  # noqa: PLR2004
            return 0.0
        return (self.finished_at - self.first_token_at) / (self.output_tokens - 1)
