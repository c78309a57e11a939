"""What a request will take, what it is worth, and when it must start."""

from math import exp, inf

from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.interface import Request
from workers.scheduling.latency.lengths import LengthModel
from workers.scheduling.latency.speed import Speed
from workers.scheduling.prefix.reuse import Reuse
from workers.scheduling.ranks import by_rank
from workers.scheduling.ticket import Ticket
from workers.scheduling.tuning import CLASS_WEIGHTS, SOFT_TTFT_S, Tuning
from workers.scheduling.workflows import Workflows

MIN_COST_S = 1e-6
PACE_LEARNING_RATE = 0.05
MAX_SURPRISE = 4.0
"""An answer so many times slower than usual counts as that: its client may have read it slowly."""


class Appraiser:
    """Costs are those at the endpoint with the longest cached prefix, all endpoints taken to be alike."""

    def __init__(self, tuning: Tuning, lengths: LengthModel, workflows: Workflows) -> None:
        self._kv_length_share, self._kv_hit_share = tuning.kv_length_share, tuning.kv_hit_share
        self._late_factor = tuning.late_factor
        self._lengths = lengths
        self._workflows = workflows
        self._pace_s = 0.02
        self._stays = Speed(is_known=False)
        self.reuse = Reuse()

    def appraise(
        self, ticket: Ticket, endpoints: dict[int, EndpointModel], capacity: float, *, is_speed_known: bool
    ) -> None:
        """`ticket.hits` are known. Of a fleet of unknown speed nothing is too late, it is only ordered."""
        request = ticket.request
        endpoint = _best_known(ticket.hits, endpoints)
        ticket.hit_tokens = ticket.hits.get(endpoint.number, 0)
        ticket.output_tokens = self._tokens_to_come(ticket)
        ticket.weight = by_rank(CLASS_WEIGHTS, request.rank) if request.weight is None else request.weight
        ticket.prefill_s = endpoint.prefill_s(ticket.prompt_tokens, ticket.hit_tokens)
        self._set_cost(ticket, endpoint)
        self._set_limits(ticket, endpoint, is_speed_known=is_speed_known)
        ticket.finish_by = ticket.start_by + ticket.prefill_s / capacity

    def _tokens_to_come(self, ticket: Ticket) -> float:
        """What has gone out is as long as was expected: as much again."""
        request, generated = ticket.request, ticket.generated_tokens
        expected = self._lengths.expect(request.tenant_id, request.predicted_output_tokens)
        return expected - generated if expected > generated else float(generated)

    def kv_tokens(self, ticket: Ticket, endpoint: EndpointModel, hit_tokens: int) -> float:
        """On average over its stay: what others hold is free, what is only cached costs part, the answer grows."""
        request = ticket.request
        tokens = ticket.prompt_tokens + self._kv_length_share * ticket.output_tokens
        if not hit_tokens:
            return tokens
        held_tokens = min(hit_tokens, endpoint.pins.held_tokens(request))
        return tokens - held_tokens - self._kv_hit_share * (hit_tokens - held_tokens)

    def stay_s(self, ticket: Ticket) -> float:
        """How long it holds a sequence of an engine: what is known of steps and lengths, by what stays have been."""
        return self._stays.factor * ticket.stay_s

    def _set_cost(self, ticket: Ticket, endpoint: EndpointModel) -> None:
        """Of the steps, and of the KV cache: a second of all of either is a second of the engine.

        What of the prompt is new is there for those that come after it, too: by as much as is usually reused, it makes
        the request no less dense.
        """
        prompt_tokens, output_tokens = ticket.prompt_tokens, ticket.output_tokens
        ticket.kv_tokens = self.kv_tokens(ticket, endpoint, ticket.hit_tokens)
        stay_s = ticket.prefill_s + output_tokens * self._pace_s
        kv_s_per_token = stay_s / endpoint.kv_capacity
        ticket.kv_s = ticket.kv_tokens * kv_s_per_token
        ticket.stay_s = stay_s
        ticket.room_s = max(ticket.kv_s, self.stay_s(ticket) / endpoint.slots())
        prefill_s = endpoint.prefill_share_s(prompt_tokens, ticket.hit_tokens)
        steps_s = prefill_s + endpoint.decode_share_s(prompt_tokens, output_tokens)
        ticket.cost_s = max(MIN_COST_S, steps_s + ticket.kv_s)
        new_s = prefill_s + (prompt_tokens - ticket.hit_tokens) * kv_s_per_token
        reused_s = self.reuse.share_of(ticket.request.tenant_id) * new_s
        ticket.density = ticket.weight / max(MIN_COST_S, ticket.cost_s - reused_s)

    def service_s(self, ticket: Ticket, endpoint: EndpointModel, output_tokens: int) -> float:
        """What an answer of this length has taken where it ran; the same sum as its cost was before it was sent."""
        output_tokens = ticket.tokens_here(output_tokens)
        stay_s = ticket.prefill_s + output_tokens * self._pace_s
        steps_s = endpoint.prefill_share_s(ticket.prompt_tokens, ticket.hit_tokens)
        steps_s += endpoint.decode_share_s(ticket.prompt_tokens, output_tokens)
        return steps_s + ticket.kv_tokens * stay_s / endpoint.kv_capacity

    def answered(self, ticket: Ticket, endpoint: EndpointModel, output_tokens: int, now: float) -> None:
        """Learns from a request that was answered to the end."""
        self._stays.learn((now - ticket.sent_at) / max(MIN_COST_S, self.stay_s(ticket)))
        if not output_tokens:
            return
        request = ticket.request
        self._lengths.learn(request.tenant_id, request.predicted_output_tokens, output_tokens)
        tokens_here = ticket.tokens_here(output_tokens)
        if ticket.first_token_at is not None and tokens_here > 1:
            pace_s = (now - ticket.first_token_at) / (tokens_here - 1)
            self._pace_s += PACE_LEARNING_RATE * (min(pace_s, MAX_SURPRISE * self._pace_s) - self._pace_s)
            endpoint.answered(pace_s)
        elif ticket.first_token_at is None:
            endpoint.answered_whole(ticket, tokens_here, now)

    def _set_limits(self, ticket: Ticket, endpoint: EndpointModel, *, is_speed_known: bool) -> None:
        request = ticket.request
        limit_s = inf if request.ttft_slo_s is None else request.ttft_slo_s
        if request.deadline_at is not None:
            limit_s = min(limit_s, self._until_due_s(ticket, endpoint, request.deadline_at))
            if not is_speed_known:
                ticket.hopeless_at, ticket.first_token_s = request.deadline_at, 0.0
        ticket.has_limit = limit_s < inf and is_speed_known and not ticket.generated_tokens  # its first token has come
        if limit_s == inf:
            limit_s = by_rank(SOFT_TTFT_S, request.rank)
            if request.workflow_id:
                limit_s += min(limit_s, self._workflows.attained_s(request))
        ticket.first_token_by = request.arrived_at + limit_s
        ticket.start_by = ticket.first_token_by - ticket.prefill_s
        ticket.is_in_vain = ticket.has_limit and limit_s < ticket.prefill_s + endpoint.full_s
        ticket.give_up_at = request.arrived_at + limit_s * self._late_factor if ticket.has_limit else inf

    def _until_due_s(self, ticket: Ticket, endpoint: EndpointModel, deadline_at: float) -> float:
        """When the first token is due, from the arrival; sets when there is no hope left."""
        request = ticket.request
        step_s = endpoint.decode_step_s()
        answer_s = ticket.output_tokens * max(self._pace_s, step_s)
        ticket.first_token_s = max(ticket.prefill_s, step_s)
        ticket.hopeless_at = deadline_at - ticket.prefill_s - self._short_answer(request, ticket) * step_s
        return self._workflows.due_at(request) - answer_s - request.arrived_at

    def _short_answer(self, request: Request, ticket: Ticket) -> float:
        """Tokens that five answers out of six exceed: what is hopeless must be so in spite of our uncertainty."""
        deviation = self._lengths.log_deviation(request.tenant_id, request.predicted_output_tokens)
        return ticket.output_tokens * exp(-deviation)


def _best_known(hits: dict[int, int], endpoints: dict[int, EndpointModel]) -> EndpointModel:
    """The one with the longest cached prefix; any, when none has one."""
    best, most = None, 0
    for number, tokens in hits.items():
        if tokens > most:
            best, most = endpoints[number], tokens
    return next(iter(endpoints.values())) if best is None else best
