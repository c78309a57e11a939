"""An endpoint as the gateway models it: what was sent, how far it is, and how long the next request would take."""

from math import inf

from workers.scheduling.endpoint_spec import DEFAULT_SPEC, EndpointSpec, Warmth
from workers.scheduling.failures.breaker import Breaker
from workers.scheduling.failures.watchdog import Watchdog
from workers.scheduling.interface import EngineReport
from workers.scheduling.kv_reports import KVReports
from workers.scheduling.latency.joint_step import JointStep, fit_one_step
from workers.scheduling.latency.paces import Paces
from workers.scheduling.latency.speed import Pace, Speed
from workers.scheduling.latency.step_times import StepTimes
from workers.scheduling.look import Look
from workers.scheduling.prefix.pins import Pins
from workers.scheduling.ticket import Ticket

__all__ = ["DEFAULT_SPEC", "EndpointModel", "EndpointSpec"]


class EndpointModel:
    """`prefill_until` is when everything sent so far has its first token, by the model; first tokens correct it.

    Own counts are the truth for what we sent. An engine's report only adds what we cannot know: the KV cache in use.
    `room_at_tokens` is the use of the KV cache at which one of those that wait would fit, -inf where none is known of.
    `full_s` is a full step beside what decodes now; `ready_at` is when an engine that loads or sleeps can take work.
    """

    __slots__ = (
        "_dense_full_ms",
        "_full_alone_s",
        "_joint",
        "_times",
        "_token_ms",
        "breaker",
        "context_tokens",
        "cost",
        "decode_speed",
        "decoding",
        "endpoint_id",
        "full_s",
        "is_draining",
        "is_open",
        "kv_capacity",
        "kv_tokens",
        "look",
        "max_batched_tokens",
        "max_running",
        "max_sequences",
        "most_kv_tokens",
        "number",
        "opens_at",
        "pace",
        "paces",
        "paused_until",
        "pins",
        "prefill_s_per_token",
        "prefill_speed",
        "prefill_until",
        "prefilling",
        "ready_at",
        "room_at_tokens",
        "running",
        "said",
        "sent_at",
        "spec",
        "version",
        "version_id",
        "warmth",
        "watchdog",
    )

    def __init__(
        self, endpoint_id: str, version_id: str, number: int, max_running: int, *, spec: EndpointSpec, breaker: Breaker
    ) -> None:
        self.endpoint_id = endpoint_id
        self.version_id = version_id
        self.number = number
        self.max_running = max_running
        self.breaker = breaker
        self.watchdog = Watchdog()
        self.warmth: Warmth = "warm"
        self.ready_at = 0.0
        self.running: dict[int, Ticket] = {}
        self.prefilling: dict[int, Ticket] = {}
        self.decoding = 0
        self.context_tokens = 0.0
        self.kv_tokens = 0.0
        self.most_kv_tokens = 0.0
        self.pins = Pins()
        self.prefill_until = 0.0
        self.paused_until = 0.0
        self.is_draining = False
        self.opens_at = 0.0
        self.is_open = False
        self.room_at_tokens = -inf
        self.version = 0
        self.look = Look()
        self.paces = Paces()
        self.said = KVReports()
        self.sent_at = -inf
        self.pace = Pace()
        self._joint = JointStep()
        self._forget_speed(spec)
        self._set_spec(spec)

    def __repr__(self) -> str:
        return f"EndpointModel({self.endpoint_id}: {len(self.prefilling)} prefilling, {self.decoding} decoding)"

    def adapt(self, spec: EndpointSpec) -> None:
        """More is known of the engine than before; what was learned of its steps counts only against its old cost."""
        if spec == self.spec:
            return
        if (spec.cost, spec.is_speed_known) != (self.cost, self.spec.is_speed_known):
            self._forget_speed(spec)
        self._set_spec(spec)

    def _forget_speed(self, spec: EndpointSpec) -> None:
        self.prefill_speed = Speed(is_known=spec.is_speed_known)
        self.decode_speed = Speed(is_known=spec.is_speed_known)

    def _set_spec(self, spec: EndpointSpec) -> None:
        self.spec = spec
        self.cost, self._times = spec.cost, StepTimes(spec.cost)
        self.max_batched_tokens = max(1, spec.max_batched_tokens)
        self.max_sequences = spec.max_sequences
        self.kv_capacity = float(max(1, spec.cost.kv_capacity_tokens))
        self._dense_full_ms = spec.cost.dense_ms(self.max_batched_tokens)
        self._full_alone_s = spec.cost.step_s(self.max_batched_tokens, 1, 0.0, 0.0)
        self._token_ms = self._dense_full_ms / self.max_batched_tokens
        self.refresh()

    def set_warmth(self, warmth: Warmth, ready_in_s: float | None, now: float) -> None:
        self.warmth = warmth
        if warmth == "warm":
            self.ready_at = 0.0
        else:
            self.ready_at = inf if ready_in_s is None else now + ready_in_s

    # what a request costs here

    def decode_step_s(self) -> float:
        sequences = max(1, self.decoding)
        return self.decode_speed.factor * self._times.step_s(sequences, sequences, self.context_tokens, 0.0)

    def refresh(self) -> None:
        """After a change of what decodes: how long a full step takes, and a token of prefill in it."""
        cost, decoding, context = self.cost, self.decoding, self.context_tokens
        full_ms = cost.t_fixed_ms + cost.ms_per_seq * (decoding + 1) + self._dense_full_ms
        if context:
            full_ms += cost.attn_fixed_ms + cost.ms_per_ctx_token * context
        self.full_s = self.prefill_speed.factor * full_ms / 1000
        batched = self.max_batched_tokens
        room = batched - decoding
        least_room = max(1, batched // 8)
        self.prefill_s_per_token = self.full_s / (max(least_room, room))

    def prefill_s(self, prompt_tokens: int, hit_tokens: int) -> float:
        new = prompt_tokens - hit_tokens
        pairs = new * (hit_tokens + new / 2)
        return new * self.prefill_s_per_token + self.prefill_speed.factor * self._times.ms_per_attn_pair * pairs / 1000

    def prefill_share_s(self, prompt_tokens: int, hit_tokens: int) -> float:
        """What a prompt adds to the steps it takes part in: what decodes beside it would have taken them anyway."""
        new = prompt_tokens - hit_tokens
        pairs = new * (hit_tokens + new / 2)
        alone_s = new * self._full_alone_s / self.max_batched_tokens
        return self.prefill_speed.factor * (alone_s + self._times.ms_per_attn_pair * pairs / 1000)

    def decode_share_s(self, prompt_tokens: int, output_tokens: float) -> float:
        """What an answer adds to the steps it takes part in."""
        cost = self.cost
        context = prompt_tokens + output_tokens / 2
        token_ms = self._token_ms + cost.ms_per_seq + cost.ms_per_ctx_token * context
        return output_tokens * self.decode_speed.factor * token_ms / 1000

    # limits

    def is_usable(self, now: float) -> bool:
        return not self.is_draining and max(self.breaker.opens_at(), self.ready_at) <= now

    def slots(self) -> int:
        return max(1, min(self.max_running, self.max_sequences))

    def has_slot(self) -> bool:
        running = len(self.running)
        return running < self.max_running and running < self.max_sequences

    def kv_used(self, now: float) -> float:
        """Tokens; from the last report and what was sent since, or from own counts when it is stale or missing."""
        share = self.said.usage(now)
        return self.kv_tokens if share is None else share * self.kv_capacity + self.said.sent_since

    def is_seen_to_keep(self, pace_s: float) -> bool:
        """Of an engine that nothing is known of, its answers tell more than a stand-in for its steps."""
        return not self.spec.is_speed_known and self.pace.step_s is not None and self.pace.step_s <= pace_s

    # events

    def reported(self, report: EngineReport) -> None:
        last_at = self.said.taken_at
        if report.taken_at < last_at:
            return
        if report.taken_at > last_at:
            self.watchdog.reported(report)
        self.said.take(report, self.running, self.most_kv_tokens / self.kv_capacity)

    def sent(self, ticket: Ticket, prefill_s: float, now: float) -> None:
        if not self.running or self.watchdog.is_stalled:
            self.watchdog.began(now)
        self.breaker.sent(ticket.number)
        self.sent_at = now
        self.running[ticket.number] = self.prefilling[ticket.number] = ticket
        begins_at = max(now, self.prefill_until)
        ticket.prefill_until = self.prefill_until = begins_at + prefill_s
        if not self.spec.is_speed_known:
            self._joint.sent(ticket.prompt_tokens - ticket.hit_tokens, now)
        self.kv_tokens += ticket.kv_tokens
        self.pins.add(ticket.request.prefix_blocks)
        self.said.sent(ticket, len(self.running))
        self.most_kv_tokens += ticket.set_most_tokens(self.kv_capacity)
        self.paces.add(ticket.request.tpot_slo_s)

    def first_token(self, ticket: Ticket, now: float) -> None:
        """What is still in prefill shifts by what the model was wrong; but what comes together waits only once."""
        prefilling, limit = self.prefilling.values(), self.max_batched_tokens
        is_joint = not self.spec.is_speed_known and fit_one_step(prefilling, limit)
        late_s = 0.0 if is_joint else now - ticket.prefill_until
        del self.prefilling[ticket.number]
        self.decoding += 1
        self.context_tokens += ticket.prompt_tokens + ticket.output_tokens / 2
        self._learn_prefill(ticket, now)
        for other in self.prefilling.values():
            other.prefill_until += late_s
        self.prefill_until = max(now, self.prefill_until + late_s) if self.prefilling else now
        self.refresh()

    def ended(self, ticket: Ticket) -> None:
        del self.running[ticket.number]
        if self.prefilling.pop(ticket.number, None) is None:
            self.decoding -= 1
            self.context_tokens -= ticket.prompt_tokens + ticket.output_tokens / 2
        elif not self.prefilling:
            self.prefill_until = 0.0
            self._joint.ended()
        self.kv_tokens -= ticket.kv_tokens
        self.said.ended(ticket)
        self.most_kv_tokens -= ticket.most_kv_tokens
        self.pins.remove(ticket.request.prefix_blocks)
        self.paces.remove(ticket.request.tpot_slo_s)
        if not self.running:
            self.paused_until = 0.0  # there is nobody left to make up for
            self.context_tokens = self.kv_tokens = self.most_kv_tokens = 0.0
        self.refresh()

    def answered(self, pace_s: float) -> None:
        """A known GPU's row says more of a step of decoding alone than answers do: theirs had prefill in them."""
        self.pace.learn(pace_s)
        if not self.spec.is_speed_known and pace_s > 0:
            self.decode_speed.learn(pace_s / self.decode_step_s())

    def answered_whole(self, ticket: Ticket, output_tokens: int, now: float) -> None:
        """An answer in one piece tells of prefill and decoding together, which is better than nothing."""
        if self.spec.is_speed_known:
            return
        prefill_s = self.prefill_s(ticket.prompt_tokens, ticket.hit_tokens)
        ratio = (now - ticket.sent_at) / (prefill_s + output_tokens * self.decode_step_s())
        if ratio > 0:
            self.prefill_speed.learn(ratio)
            self.decode_speed.learn(ratio)
            self.refresh()

    def lean_on(self, prefill_factor: float | None, decode_factor: float | None) -> None:
        """How fast engines like it are, of those that nothing was known of."""
        self.prefill_speed.lean_on(prefill_factor)
        self.decode_speed.lean_on(decode_factor)
        self.refresh()

    def outgrown(self, ticket: Ticket, output_tokens: float) -> None:
        """The answer is longer than expected: as much again is expected of it."""
        grown = output_tokens * 2 - ticket.output_tokens
        ticket.output_tokens += grown
        self.most_kv_tokens -= ticket.most_kv_tokens
        self.most_kv_tokens += ticket.set_most_tokens(self.kv_capacity)
        if ticket.number not in self.prefilling:
            self.context_tokens += grown / 2

    def _learn_prefill(self, ticket: Ticket, now: float) -> None:
        """Of full steps; of what fits into one with others only while nothing better is known."""
        is_known = self.spec.is_speed_known
        if not is_known and ticket.prompt_tokens - ticket.hit_tokens <= self.max_batched_tokens:
            self._joint.teach(self.prefill_speed, self.cost, self.max_batched_tokens, ticket.sent_at, now)
            return
        self._joint.heard(now)
        observed_s = now - max(ticket.sent_at, ticket.prefill_until - ticket.prefill_s)
        # What is thought of one that nothing is known of may have changed by much since it was sent this.
        expected_s = ticket.prefill_s if is_known else self.prefill_s(ticket.prompt_tokens, ticket.hit_tokens)
        if observed_s > 0 and (expected_s >= self._full_alone_s or not is_known):
            self.prefill_speed.learn(observed_s / expected_s)
