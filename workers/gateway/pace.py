"""How fast an engine is, learned from what it did for us: seconds to a first token, seconds to each further one."""

from msgspec import Struct

from workers.gateway.lines import Line
from workers.scheduling.latency.step_cost import StepCost

# A line that errs by more than this says little about the next request.
CONFIDENT_ERROR = 0.5
CHANGE_WORTH_TELLING = 0.15
ROOMY_KV_TOKENS = 1_000_000
# How sharply a step turns from memory bound to compute bound; of a CPU nothing is known, so it is a corner.
STEEPNESS = 8.0
REFERENCE_TOKENS, REFERENCE_BATCH = 1000.0, 4.0


class Work(Struct):
    """One request on an engine. `tokens_ahead` wait for their first token there when it is sent, its own included."""

    sent_at: float
    prompt_tokens: int
    tokens_ahead: int
    batch: int
    first_token_at: float | None = None


class Pace:
    """`to_first` goes by tokens to be read, `step` by the requests that decode at once."""

    def __init__(self) -> None:
        self.to_first = Line(is_flat=False)
        self.step = Line(is_flat=True)
        self.waiting_tokens = 0
        self.decoding = 0
        self._told = (0.0, 0.0)

    @property
    def is_confident(self) -> bool:
        return all(line.is_trusted and line.error < CONFIDENT_ERROR for line in (self.to_first, self.step))

    @property
    def prefill_tokens_per_s(self) -> float | None:
        return REFERENCE_TOKENS / self.to_first.expect(REFERENCE_TOKENS) if self.to_first.is_trusted else None

    @property
    def step_s(self) -> float | None:
        """With as many requests at once as there are now."""
        return self.step.expect(max(1, self.decoding)) if self.step.is_trusted else None

    def sent(self, prompt_tokens: int, now: float) -> Work:
        self.waiting_tokens += prompt_tokens
        return Work(now, prompt_tokens, self.waiting_tokens, self.decoding)

    def first_token(self, work: Work, at: float) -> None:
        if work.first_token_at is None:
            work.first_token_at = at
            self.waiting_tokens -= work.prompt_tokens
            self.decoding += 1

    def ended(self, work: Work) -> None:
        if work.first_token_at is None:
            self.waiting_tokens -= work.prompt_tokens
        else:
            self.decoding -= 1

    def learn(self, work: Work, now: float, *, uncached_tokens: int, output_tokens: int) -> None:
        """From an answer that came to its end; before `ended`."""
        tokens = max(1, work.tokens_ahead - work.prompt_tokens + uncached_tokens)
        if work.first_token_at is not None:
            self.to_first.learn(tokens, work.first_token_at - work.sent_at)
            began_at = work.first_token_at
        elif self.to_first.is_trusted:
            began_at = min(now, work.sent_at + self.to_first.expect(tokens))
        else:
            began_at = work.sent_at  # all of it then counts as decoding: too slow rather than too fast
        if output_tokens > 1:
            self.step.learn(max(1, (work.batch + self.decoding) / 2), (now - began_at) / (output_tokens - 1))

    def take_change(self) -> bool:
        """Whether it is known by now, and is not what was told last."""
        if not self.is_confident:
            return False
        known = (self.to_first.expect(REFERENCE_TOKENS), self.step.expect(REFERENCE_BATCH))
        is_new = any(abs(new - old) > CHANGE_WORTH_TELLING * old for new, old in zip(known, self._told, strict=True))
        if is_new:
            self._told = known
        return is_new

    def cost(self, kv_capacity_tokens: int | None) -> StepCost:
        return StepCost(
            t_fixed_ms=0.0,
            ms_per_seq=1000 * self.step.b,
            t_weight_ms=1000 * max(self.step.a, 1e-6),
            ms_per_token=1000 * max(self.to_first.expect(REFERENCE_TOKENS) / REFERENCE_TOKENS, 1e-9),
            p=STEEPNESS,
            attn_fixed_ms=0.0,
            ms_per_ctx_token=0.0,
            ms_per_attn_pair=0.0,
            kv_capacity_tokens=kv_capacity_tokens or ROOMY_KV_TOKENS,
        )
