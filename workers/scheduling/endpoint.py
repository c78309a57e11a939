"""An endpoint as the gateway models it: what was sent, how far it is, and how long the next request would take."""

from math import inf

from msgspec import Struct

from workers.scheduling.interface import EngineReport
from workers.scheduling.latency.step_cost import StepCost
from workers.scheduling.ticket import Ticket

REPORT_MAX_AGE_S = 2.0
LEARNING_RATE = 0.05
MIN_FACTOR, MAX_FACTOR = 0.4, 2.5


class EndpointSpec(Struct, frozen=True, kw_only=True):
    """What is known of an engine and its GPU before the first request."""

    cost: StepCost
    max_batched_tokens: int = 2048
    max_sequences: int = 256


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
    )
)
"""An 8B model on an H100: a start for engines of which nothing is known; the factors learned do the rest."""


class EndpointModel:
    """`prefill_until` is when everything sent so far has its first token, by the model; first tokens correct it.

    Own counts are the truth for what we sent. An engine's report only adds what we cannot know: the KV cache in use.
    """

    __slots__ = (
        "_paces",
        "_report",
        "_sent_since_report",
        "context_tokens",
        "cost",
        "decoding",
        "endpoint_id",
        "failures_in_a_row",
        "full_factor",
        "is_draining",
        "kv_capacity",
        "kv_tokens",
        "max_batched_tokens",
        "max_running",
        "max_sequences",
        "number",
        "opens_at",
        "paused_until",
        "prefill_s_per_token",
        "prefill_until",
        "prefilling",
        "running",
        "suspended_until",
        "version",
        "version_id",
    )

    def __init__(self, endpoint_id: str, version_id: str, number: int, max_running: int, spec: EndpointSpec) -> None:
        self.endpoint_id = endpoint_id
        self.version_id = version_id
        self.number = number
        self.max_running = max_running
        self.cost = spec.cost
        self.max_batched_tokens = spec.max_batched_tokens
        self.max_sequences = spec.max_sequences
        self.kv_capacity = float(spec.cost.kv_capacity_tokens)
        self.running: dict[int, Ticket] = {}
        self.prefilling: dict[int, Ticket] = {}
        self.decoding = 0
        self.context_tokens = 0.0
        self.kv_tokens = 0.0
        self.prefill_until = 0.0
        self.paused_until = 0.0
        self.full_factor = 1.0
        self.is_draining = False
        self.opens_at = 0.0
        self.version = 0
        self.failures_in_a_row = 0
        self.suspended_until = 0.0
        self._paces: dict[float, int] = {}
        self._report: EngineReport | None = None
        self._sent_since_report = 0.0
        self.prefill_s_per_token = 0.0
        self.refresh()

    def __repr__(self) -> str:
        return f"EndpointModel({self.endpoint_id}: {len(self.prefilling)} prefilling, {self.decoding} decoding)"

    # what a request costs here

    def full_step_s(self, sequences: int) -> float:
        return self.full_factor * self.cost.step_s(self.max_batched_tokens, sequences + 1, self.context_tokens, 0.0)

    def decode_step_s(self) -> float:
        return self.cost.step_s(max(1, self.decoding), max(1, self.decoding), self.context_tokens, 0.0)

    def refresh(self) -> None:
        """After a change of what decodes: how long a token of prefill takes beside it."""
        tokens = max(self.max_batched_tokens // 8, self.max_batched_tokens - self.decoding)
        self.prefill_s_per_token = self.full_step_s(self.decoding) / tokens

    def prefill_s(self, prompt_tokens: int, hit_tokens: int) -> float:
        new = prompt_tokens - hit_tokens
        pairs = new * (hit_tokens + new / 2)
        return new * self.prefill_s_per_token + self.full_factor * self.cost.ms_per_attn_pair * pairs / 1000

    def decode_share_s(self, prompt_tokens: int, output_tokens: float) -> float:
        """What an answer adds to the steps it takes part in."""
        cost = self.cost
        context = prompt_tokens + output_tokens / 2
        token_ms = cost.dense_ms(self.max_batched_tokens) / self.max_batched_tokens
        return output_tokens * (token_ms + cost.ms_per_seq + cost.ms_per_ctx_token * context) / 1000

    # limits

    def is_usable(self, now: float) -> bool:
        return not self.is_draining and self.suspended_until <= now

    def has_slot(self) -> bool:
        return len(self.running) < self.max_running and len(self.running) < self.max_sequences

    def kv_used(self, now: float) -> float:
        """Tokens; from the last report and what was sent since, or from own counts when it is stale or missing."""
        report = self._report
        if report is None or now - report.taken_at > REPORT_MAX_AGE_S:
            return self.kv_tokens
        return report.kv_usage * self.kv_capacity + self._sent_since_report

    def tightest_pace_s(self) -> float:
        return min(self._paces) if self._paces else inf

    # events

    def adapt(self, spec: EndpointSpec) -> None:
        """More is known of the engine than before; what was learned of its steps counts only against its old cost."""
        if spec.cost != self.cost:
            self.full_factor = 1.0
        self.cost = spec.cost
        self.kv_capacity = float(spec.cost.kv_capacity_tokens)
        self.max_batched_tokens = spec.max_batched_tokens
        self.max_sequences = spec.max_sequences
        self.refresh()

    def reported(self, report: EngineReport) -> None:
        if self._report is not None and report.taken_at < self._report.taken_at:
            return
        self._report = report
        self._sent_since_report = sum(
            ticket.kv_tokens for ticket in self.prefilling.values() if ticket.sent_at >= report.taken_at
        )

    def sent(self, ticket: Ticket, prefill_s: float, now: float) -> None:
        self.running[ticket.number] = ticket
        self.prefilling[ticket.number] = ticket
        ticket.prefill_until = self.prefill_until = max(now, self.prefill_until) + prefill_s
        self.kv_tokens += ticket.kv_tokens
        self._sent_since_report += ticket.kv_tokens
        pace = ticket.request.tpot_slo_s
        if pace is not None:
            self._paces[pace] = self._paces.get(pace, 0) + 1

    def first_token(self, ticket: Ticket, now: float) -> None:
        """What is still in prefill shifts by what the model was wrong."""
        if self.prefilling.pop(ticket.number, None) is None:
            return
        self.decoding += 1
        self.context_tokens += ticket.request.prompt_tokens + ticket.output_tokens / 2
        self._shift(now - ticket.prefill_until)
        self._learn(ticket, now)
        self.prefill_until = max(now, self.prefill_until) if self.prefilling else now
        self.refresh()

    def ended(self, ticket: Ticket) -> None:
        del self.running[ticket.number]
        if self.prefilling.pop(ticket.number, None) is None:
            self.decoding -= 1
            self.context_tokens -= ticket.request.prompt_tokens + ticket.output_tokens / 2
        elif not self.prefilling:
            self.prefill_until = 0.0
        self.kv_tokens -= ticket.kv_tokens
        self._forget_pace(ticket.request.tpot_slo_s)
        if not self.running:
            self.context_tokens = self.kv_tokens = 0.0
        self.refresh()

    def outgrown(self, ticket: Ticket, output_tokens: float) -> None:
        """The answer is longer than expected: as much again is expected of it."""
        grown = output_tokens * 2 - ticket.output_tokens
        ticket.output_tokens += grown
        if ticket.number not in self.prefilling:
            self.context_tokens += grown / 2

    def _shift(self, late_s: float) -> None:
        self.prefill_until += late_s
        for other in self.prefilling.values():
            other.prefill_until += late_s

    def _learn(self, ticket: Ticket, now: float) -> None:
        expected = ticket.prefill_s
        observed = now - max(ticket.sent_at, ticket.prefill_until - expected)
        if expected < self.cost.step_s(self.max_batched_tokens, 1, 0.0, 0.0):
            return
        ratio = observed / expected
        self.full_factor *= 1 + LEARNING_RATE * (min(2.0, max(0.5, ratio)) - 1)
        self.full_factor = min(MAX_FACTOR, max(MIN_FACTOR, self.full_factor))

    def _forget_pace(self, pace: float | None) -> None:
        if pace is None:
            return
        if self._paces[pace] == 1:
            del self._paces[pace]
        else:
            self._paces[pace] -= 1
