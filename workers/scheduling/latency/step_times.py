"""How long an engine's steps take, for those who ask often."""

from workers.scheduling.latency.step_cost import StepCost


class StepTimes:
    """The formula of `StepCost.step_s`, with what depends on the tokens alone worked out once for each number."""

    __slots__ = (
        "_attn_fixed_ms",
        "_cost",
        "_dense_s",
        "_ms_per_seq",
        "_t_fixed_ms",
        "ms_per_attn_pair",
        "ms_per_ctx_token",
    )

    def __init__(self, cost: StepCost) -> None:
        self._cost = cost
        self._t_fixed_ms, self._ms_per_seq = cost.t_fixed_ms, cost.ms_per_seq
        self.ms_per_attn_pair = cost.ms_per_attn_pair
        self._attn_fixed_ms, self.ms_per_ctx_token = cost.attn_fixed_ms, cost.ms_per_ctx_token
        self._dense_s: dict[int, float] = {}

    def step_s(self, tokens: int, sequences: int, context_tokens: float, pairs: float) -> float:
        dense_s = self._dense_s.get(tokens)
        if dense_s is None:
            dense_s = self._dense_s[tokens] = self._cost.dense_ms(tokens) / 1000
        other = self._t_fixed_ms + self._ms_per_seq * sequences + self.ms_per_attn_pair * pairs
        if context_tokens:
            other += self._attn_fixed_ms + self.ms_per_ctx_token * context_tokens
        return dense_s + other / 1000
