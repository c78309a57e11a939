"""How long an engine's steps take, and steps that are taken in one leap."""

from math import sqrt

from workers.scheduling.latency.step_cost import StepCost


class StepTimes:
    """The formula of `StepCost.step_s`, with what depends on the tokens alone worked out once for each number."""

    __slots__ = (
        "_attn_fixed_ms",
        "_cost",
        "_dense_s",
        "_ms_per_attn_pair",
        "_ms_per_seq",
        "_t_fixed_ms",
        "ms_per_ctx_token",
    )

    def __init__(self, cost: StepCost) -> None:
        self._cost = cost
        self._t_fixed_ms, self._ms_per_seq = cost.t_fixed_ms, cost.ms_per_seq
        self._ms_per_attn_pair = cost.ms_per_attn_pair
        self._attn_fixed_ms, self.ms_per_ctx_token = cost.attn_fixed_ms, cost.ms_per_ctx_token
        self._dense_s: dict[int, float] = {}

    def step_s(self, tokens: int, sequences: int, context_tokens: int, pairs: float) -> float:
        dense_s = self._dense_s.get(tokens)
        if dense_s is None:
            dense_s = self._dense_s[tokens] = self._cost.dense_ms(tokens) / 1000
        other = self._t_fixed_ms + self._ms_per_seq * sequences + self._ms_per_attn_pair * pairs
        if context_tokens:
            other += self._attn_fixed_ms + self.ms_per_ctx_token * context_tokens
        return dense_s + other / 1000


class Leap:
    """`steps` of decodes alone, each `growth_s` longer than the one before: their contexts grow by a token each."""

    __slots__ = ("_began_at", "_growth_s", "_step_s", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self._began_at = 0.0
        self._step_s = 0.0
        self._growth_s = 0.0

    def begin(self, now: float, step_s: float, growth_s: float) -> None:
        self._began_at, self._step_s, self._growth_s = now, step_s, growth_s

    def ends_at(self) -> float:
        return self._began_at + self._length_s(self.steps)

    def steps_begun(self, now: float) -> int:
        """The one that runs now included; at least 1."""
        growth_s, elapsed_s = self._growth_s, now - self._began_at
        if growth_s > 0:
            base_s = self._step_s - growth_s / 2
            done = int((sqrt(base_s * base_s + 2 * growth_s * elapsed_s) - base_s) / growth_s)
        else:
            done = int(elapsed_s / self._step_s)
        while self._length_s(done) < elapsed_s:
            done += 1
        return max(1, done)

    def _length_s(self, steps: int) -> float:
        return steps * self._step_s + self._growth_s * (steps * (steps - 1) // 2)
