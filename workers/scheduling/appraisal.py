"""What a request will take, what it is worth, and when it must start."""

from math import inf

from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.interface import Request
from workers.scheduling.latency.lengths import LengthModel
from workers.scheduling.prefix.index import PrefixIndex
from workers.scheduling.ticket import Ticket
from workers.scheduling.tuning import CLASS_WEIGHTS, SOFT_TTFT_S, Tuning, by_rank
from workers.scheduling.workflows import Workflows

MIN_COST_S = 1e-6
PACE_LEARNING_RATE = 0.05


class Appraiser:
    """Costs are those at the endpoint with the longest cached prefix, all endpoints taken to be alike."""

    def __init__(self, tuning: Tuning, lengths: LengthModel, workflows: Workflows) -> None:
        self._tuning = tuning
        self._lengths = lengths
        self._workflows = workflows
        self._pace_s = 0.02

    def appraise(self, ticket: Ticket, index: PrefixIndex, endpoint: EndpointModel, fleet: int) -> None:
        request, tuning = ticket.request, self._tuning
        if request.prefix_blocks:
            match = index.match(request.prefix_blocks)
            ticket.hit_tokens = min(request.prompt_tokens - 1, match[0][0] * request.block_tokens) if match else 0
        ticket.output_tokens = self._lengths.expect(request.tenant_id, request.predicted_output_tokens)
        ticket.weight = by_rank(CLASS_WEIGHTS, request.rank) if request.weight is None else request.weight
        ticket.prefill_s = endpoint.prefill_s(request.prompt_tokens, ticket.hit_tokens)
        decode_s = endpoint.decode_share_s(request.prompt_tokens, ticket.output_tokens)
        kv_s = self.kv_tokens(ticket, ticket.hit_tokens) / endpoint.kv_capacity * self._residence_s(ticket)
        ticket.kv_s = tuning.kv_weight * kv_s
        ticket.cost_s = max(MIN_COST_S, ticket.prefill_s + decode_s + ticket.kv_s)
        ticket.density = ticket.weight / ticket.cost_s
        self._set_limits(ticket, endpoint)
        ticket.finish_by = ticket.start_by + ticket.prefill_s / fleet

    def kv_tokens(self, ticket: Ticket, hit_tokens: int) -> float:
        """On average over its stay: shared blocks are charged in part, the answer grows from nothing."""
        tuning = self._tuning
        prompt_tokens = ticket.request.prompt_tokens - tuning.kv_hit_share * hit_tokens
        return prompt_tokens + tuning.kv_length_share * ticket.output_tokens

    def answered(self, ticket: Ticket, output_tokens: int, now: float) -> None:
        """Learns from a request that was answered to the end."""
        if output_tokens:
            request = ticket.request
            self._lengths.learn(request.tenant_id, request.predicted_output_tokens, output_tokens)
        if ticket.first_token_at is not None and output_tokens > 1:
            pace_s = (now - ticket.first_token_at) / (output_tokens - 1)
            self._pace_s += PACE_LEARNING_RATE * (pace_s - self._pace_s)

    def _residence_s(self, ticket: Ticket) -> float:
        return ticket.prefill_s + ticket.output_tokens * self._pace_s

    def _set_limits(self, ticket: Ticket, endpoint: EndpointModel) -> None:
        request = ticket.request
        limit_s = self._limit_s(request, ticket, endpoint)
        ticket.has_limit = limit_s < inf
        if not ticket.has_limit:
            limit_s = by_rank(SOFT_TTFT_S, request.rank)
        ticket.start_by = request.arrived_at + limit_s - ticket.prefill_s
        ticket.give_up_at = request.arrived_at + limit_s * self._tuning.late_factor if ticket.has_limit else inf

    def _limit_s(self, request: Request, ticket: Ticket, endpoint: EndpointModel) -> float:
        """Until the first token is due, from the arrival."""
        limit_s = inf if request.ttft_slo_s is None else request.ttft_slo_s
        if request.deadline_at is not None:
            pace_s = max(self._pace_s, endpoint.decode_step_s())
            rest_s = ticket.output_tokens * pace_s + self._workflows.expected_rest_s(request)
            limit_s = min(limit_s, request.deadline_at - rest_s - request.arrived_at)
        return limit_s
