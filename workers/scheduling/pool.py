"""The queue and the endpoints of one model version: what runs next, where, and what is let go."""

import heapq
from math import inf

from msgspec import Struct

from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.interface import Request
from workers.scheduling.latency.lengths import LengthModel
from workers.scheduling.planning.price import BidPrice
from workers.scheduling.planning.slots import DeadlineSlots
from workers.scheduling.prefix.index import PrefixIndex
from workers.scheduling.ticket import State, Ticket


class Tuning(Struct, frozen=True, kw_only=True):
    """Every constant of the policy, the same for all traffic.

    gate_share: an endpoint takes more while less than this share of a step's tokens waits in its prefill.
    kv_ceiling, kv_ceiling_patient: share of the KV cache that may be in use after a request, and after one whose start
        can wait `patient_s`.
    affinity: how much a detour from the cheapest endpoint weighs against waiting, as a share of the extra cost.
    pace_margin: share of the tightest pace (TPOT) among the running that full steps may take.
    relief_s: overload of the plan that is put up with, as estimates are not that exact.
    late_factor: work that is late still runs on idle endpoints until it has waited this many times its limit.
    """

    gate_share: float = 0.5
    kv_ceiling: float = 0.92
    kv_ceiling_patient: float = 0.4
    patient_s: float = 5.0
    affinity: float = 0.5
    pace_margin: float = 0.9
    relief_s: float = 0.3
    late_factor: float = 4.0
    price_every_s: float = 0.25
    fill: float = 0.9
    kvw: float = 2.0
    kvmode: float = 0
    kvhit: float = 0.5
    kvneed: float = 2.0


NO_SLO_TTFT_S = 30.0
KV_HIT_SHARE = 0.5
KV_LENGTH_SHARE = 0.5
LOOK_AHEAD = 8
UNPARK_TRIES = 2


class Pool:
    """`fill` returns what to send; `expire` what to refuse."""

    def __init__(self, tuning: Tuning, lengths: LengthModel, now: float) -> None:
        self._tuning = tuning
        self._lengths = lengths
        self.endpoints: dict[int, EndpointModel] = {}
        self._index = PrefixIndex()
        self._slots = DeadlineSlots(1.0, now)
        self._price = BidPrice()
        self.price = 0.0
        self._price_at = -inf
        self._ready: list[tuple[float, int, Ticket]] = []
        self._held: dict[int, list[tuple[float, int, Ticket]]] = {}
        self._parked: list[tuple[float, int, Ticket]] = []
        self._late: list[tuple[float, int, Ticket]] = []
        self.waiting: dict[int, Ticket] = {}
        self._backlog_at = -inf
        self._backlog_s = 0.0
        self.pace_s = 0.02

    # endpoints

    def add_endpoint(self, endpoint: EndpointModel, now: float) -> None:
        self.endpoints[endpoint.number] = endpoint
        self._held[endpoint.number] = []
        self._slots.rebase(max(1.0, float(len(self.endpoints))), now)

    def remove_endpoint(self, endpoint: EndpointModel, now: float) -> None:
        del self.endpoints[endpoint.number]
        self._index.forget_endpoint(endpoint.number)
        for item in self._held.pop(endpoint.number):
            heapq.heappush(self._ready, item)
        self._slots.rebase(max(1.0, float(len(self.endpoints))), now)

    # arrival

    def arrive(self, ticket: Ticket, now: float) -> None:
        self.waiting[ticket.number] = ticket
        self._appraise(ticket, now)
        self._price.arrived(ticket.density, ticket.cost_s, now)
        self._update_price(now)
        if ticket.start_by < now:
            self._be_late(ticket)
        elif ticket.density < self.price:
            self._park(ticket)
        else:
            self._keep(ticket)
            self._relieve(now)

    def withdraw(self, ticket: Ticket) -> None:
        """It leaves the queue, whatever list it is in."""
        del self.waiting[ticket.number]
        if ticket.state is State.KEPT:
            self._slots.remove(ticket)
        ticket.state = State.GONE
        ticket.version += 1

    def _appraise(self, ticket: Ticket, now: float) -> None:
        """Cost at its best endpoint, density, and the latest start."""
        request = ticket.request
        if request.prefix_blocks:
            ticket.hits = self._index.match(request.prefix_blocks)
            ticket.hit_tokens = min(request.prompt_tokens - 1, ticket.hits[0][0] * request.block_tokens) if ticket.hits else 0
        ticket.output_tokens = self._lengths.expect(request.tenant_id, request.predicted_output_tokens)
        if not self.endpoints:
            return
        some = next(iter(self.endpoints.values()))
        ticket.prefill_s = max(1e-6, some.prefill_s(request.prompt_tokens, ticket.hit_tokens))
        ticket.decode_s = some.decode_share_s(request.prompt_tokens, ticket.output_tokens)
        ticket.cost_s = ticket.prefill_s + ticket.decode_s
        kv = (request.prompt_tokens - ticket.hit_tokens*self._tuning.kvhit + ticket.output_tokens / 2) / some.kv_capacity * (ticket.prefill_s + ticket.output_tokens * self.pace_s)
        kv *= self._tuning.kvw
        ticket.cost_s = max(ticket.cost_s, kv) if self._tuning.kvmode else ticket.cost_s + kv
        ticket.density = ticket.weight / ticket.cost_s
        ticket.work_s = ticket.prefill_s
        due_at, limit_s = self._due(request, ticket, some)
        ticket.start_by = due_at - ticket.prefill_s
        ticket.finish_by = ticket.start_by + ticket.prefill_s / len(self.endpoints)
        ticket.give_up_at = request.arrived_at + limit_s * self._tuning.late_factor

    def _due(self, request: Request, ticket: Ticket, some: EndpointModel) -> tuple[float, float]:
        if request.deadline_at is not None:
            answer_s = ticket.output_tokens * max(some.decode_step_s(), some.full_step_s(some.decoding) / 2)
            return request.deadline_at - answer_s, request.deadline_at - request.arrived_at
        limit_s = request.ttft_slo_s if request.ttft_slo_s is not None else NO_SLO_TTFT_S
        return request.arrived_at + limit_s, limit_s

    # lists

    def _keep(self, ticket: Ticket) -> None:
        ticket.state = State.KEPT
        ticket.version += 1
        self._slots.add(ticket)
        heapq.heappush(self._ready, (ticket.start_by, ticket.number, ticket))

    def _park(self, ticket: Ticket) -> None:
        if ticket.state is State.KEPT and ticket.version:
            self._slots.remove(ticket)
        ticket.state = State.PARKED
        ticket.version += 1
        heapq.heappush(self._parked, (-ticket.density, ticket.number, ticket))

    def _be_late(self, ticket: Ticket) -> None:
        if ticket.state is State.KEPT and ticket.version:
            self._slots.remove(ticket)
        ticket.state = State.LATE
        ticket.version += 1
        heapq.heappush(self._late, (ticket.give_up_at, ticket.number, ticket))

    def _relieve(self, now: float) -> None:
        """Moore and Hodgson: while some prefix of the plan cannot be done in time, its least dense ticket goes."""
        while len(self._slots) and self._slots.overload_s(now, self._backlog(now)) > self._tuning.relief_s:
            self._park(self._slots.least_dense(now, self._backlog(now) - self._tuning.relief_s))

    def _backlog(self, now: float) -> float:
        if now - self._backlog_at > 0.005:
            self._backlog_at = now
            self._backlog_s = sum(max(0.0, e.prefill_until - now) for e in self.endpoints.values())
        return self._backlog_s

    def _update_price(self, now: float) -> None:
        if now - self._price_at >= self._tuning.price_every_s:
            self._price_at = now
            self.price = self._price.price(len(self.endpoints), now)

    # time

    def expire(self, now: float) -> list[Ticket]:
        """Moves what has become late; returns what is given up."""
        self._update_price(now)
        self._slots.advance(now)
        if self._slots.is_worn:
            self._slots.rebase(self._slots.capacity, now)
        for heap in (self._ready, *self._held.values()):
            while heap and (heap[0][0] < now or not _is(heap[0][2], State.KEPT)):
                ticket = heapq.heappop(heap)[2]
                if ticket.state is State.KEPT and ticket.start_by < now:
                    self._be_late(ticket)
        self._relieve(now)
        self._unpark(now)
        return self._give_up(now)

    def _unpark(self, now: float) -> None:
        """The densest of what was let go comes back when there is room again."""
        for _ in range(UNPARK_TRIES):
            ticket = self._densest_parked(now)
            if ticket is None or ticket.density < self.price:
                return
            heapq.heappop(self._parked)
            self._keep(ticket)
            self._relieve(now)
            if ticket.state is State.PARKED:
                return

    def _densest_parked(self, now: float) -> Ticket | None:
        while self._parked:
            ticket = self._parked[0][2]
            if ticket.state is State.PARKED and ticket.start_by >= now:
                return ticket
            heapq.heappop(self._parked)
            if ticket.state is State.PARKED:
                self._be_late(ticket)
        return None

    def _give_up(self, now: float) -> list[Ticket]:
        given_up = []
        while self._late and (self._late[0][0] <= now or self._late[0][2].state is not State.LATE):
            ticket = heapq.heappop(self._late)[2]
            if ticket.state is State.LATE:
                given_up.append(ticket)
        return given_up

    # dispatch

    def fill(self, now: float) -> list[tuple[Ticket, EndpointModel]]:
        sent: list[tuple[Ticket, EndpointModel]] = []
        open_endpoints = [e for e in self.endpoints.values() if self._is_open(e, now)]
        while open_endpoints:
            choice = self._next_kept(open_endpoints, now)
            if choice is None:
                choice = self._next_idle(open_endpoints, now)
            if choice is None:
                break
            ticket, endpoint = choice
            self._send(ticket, endpoint, now)
            sent.append(choice)
            if not self._is_open(endpoint, now):
                open_endpoints.remove(endpoint)
        return sent

    def _is_open(self, endpoint: EndpointModel, now: float) -> bool:
        if not endpoint.is_usable(now) or not endpoint.has_slot() or endpoint.paused_until > now:
            return False
        waiting_s = endpoint.prefill_until - now
        return waiting_s < self._tuning.gate_share * endpoint.max_batched_tokens * endpoint.prefill_s_per_token

    def _next_kept(self, open_endpoints: list[EndpointModel], now: float) -> tuple[Ticket, EndpointModel] | None:
        """In order of latest start; a ticket whose best endpoint is worth waiting for is passed over."""
        passed = []
        choice = None
        while self._ready and len(passed) < LOOK_AHEAD:
            item = heapq.heappop(self._ready)
            ticket = item[2]
            if ticket.state is not State.KEPT:
                continue
            endpoint = self._choose(ticket, open_endpoints, now)
            if endpoint is not None:
                choice = (ticket, endpoint)
                break
            passed.append(item)
        for item in passed:
            heapq.heappush(self._ready, item)
        return choice

    def _choose(self, ticket: Ticket, open_endpoints: list[EndpointModel], now: float) -> EndpointModel | None:
        """The endpoint of least predicted completion and detour, if it is open; None to wait for it."""
        best, best_score = None, inf
        for endpoint in self.endpoints.values():
            if not endpoint.is_usable(now):
                continue
            score = self._score(ticket, endpoint, now)
            if score < best_score and (endpoint not in open_endpoints or self._fits(ticket, endpoint, now)):
                best, best_score = endpoint, score
        return best if best in open_endpoints else None

    def _score(self, ticket: Ticket, endpoint: EndpointModel, now: float) -> float:
        request = ticket.request
        prefill_s = endpoint.prefill_s(request.prompt_tokens, self._hit_tokens(ticket, endpoint))
        wait_s = max(0.0, endpoint.prefill_until - now, endpoint.paused_until - now)
        return wait_s + prefill_s + self._tuning.affinity * max(0.0, prefill_s - ticket.prefill_s)

    def _hit_tokens(self, ticket: Ticket, endpoint: EndpointModel) -> int:
        request = ticket.request
        if not request.prefix_blocks:
            return 0
        hit = self._index.count(request.prefix_blocks, endpoint.number) * request.block_tokens
        return min(request.prompt_tokens - 1, hit)

    def _fits(self, ticket: Ticket, endpoint: EndpointModel, now: float) -> bool:
        """KV headroom after it; work that can wait leaves room for what cannot."""
        kv_tokens = self._kv_tokens(ticket, self._hit_tokens(ticket, endpoint))
        is_patient = ticket.start_by - now > self._tuning.patient_s
        ceiling = self._tuning.kv_ceiling_patient if is_patient else self._tuning.kv_ceiling
        after = endpoint.kv_used(now) + kv_tokens * self._tuning.kvneed
        return after <= ceiling * endpoint.kv_capacity or not endpoint.running

    def _kv_tokens(self, ticket: Ticket, hit_tokens: int) -> float:
        request = ticket.request
        return request.prompt_tokens - KV_HIT_SHARE * hit_tokens + KV_LENGTH_SHARE * ticket.output_tokens

    def _next_idle(self, open_endpoints: list[EndpointModel], now: float) -> tuple[Ticket, EndpointModel] | None:
        """Nothing of the plan can go: a parked ticket on an endpoint that has nothing to prefill, then a late one."""
        idle = [e for e in open_endpoints if not e.prefilling]
        if not idle or len(self._slots):
            return None
        ticket = self._densest_parked(now)
        if ticket is not None:
            endpoint = self._choose(ticket, idle, now)
            if endpoint is not None and self._may_hold_up(ticket, idle):
                heapq.heappop(self._parked)
                return ticket, endpoint
        return self._next_late(idle, now)

    def _may_hold_up(self, ticket: Ticket, idle: list[EndpointModel]) -> bool:
        return len(idle) > 1 or ticket.prefill_s < 0.5

    def _next_late(self, idle: list[EndpointModel], now: float) -> tuple[Ticket, EndpointModel] | None:
        if self.price > 0 or len(idle) < 2:
            return None
        while self._late and self._late[0][2].state is not State.LATE:
            heapq.heappop(self._late)
        if not self._late:
            return None
        ticket = self._late[0][2]
        endpoint = self._choose(ticket, idle, now)
        if endpoint is None:
            return None
        heapq.heappop(self._late)
        return ticket, endpoint

    def _send(self, ticket: Ticket, endpoint: EndpointModel, now: float) -> None:
        if ticket.state is State.KEPT:
            self._slots.remove(ticket)
        del self.waiting[ticket.number]
        ticket.version += 1
        ticket.state = State.SENT
        ticket.endpoint = endpoint
        ticket.sent_at = now
        request = ticket.request
        hit_tokens = self._hit_tokens(ticket, endpoint)
        ticket.kv_tokens = self._kv_tokens(ticket, hit_tokens)
        ticket.prefill_s = endpoint.prefill_s(request.prompt_tokens, hit_tokens)
        endpoint.sent(ticket, ticket.prefill_s, now)
        self._backlog_s += ticket.prefill_s
        self._pace(ticket, endpoint, hit_tokens)
        if request.prefix_blocks:
            self._index.record(
                request.prefix_blocks, endpoint.number, int(0.9 * endpoint.kv_capacity) // request.block_tokens
            )

    def _pace(self, ticket: Ticket, endpoint: EndpointModel, hit_tokens: int) -> None:
        """After full steps longer than the tightest pace among the running, short steps must make up for them."""
        target_s = self._tuning.pace_margin * endpoint.tightest_pace_s()
        full_s = endpoint.full_step_s(endpoint.decoding)
        if full_s <= target_s:
            return
        decode_s = endpoint.decode_step_s()
        steps = (ticket.request.prompt_tokens - hit_tokens) / max(1, endpoint.max_batched_tokens - endpoint.decoding)
        rest_s = max(0.1 * target_s, target_s - decode_s)
        endpoint.paused_until = endpoint.prefill_until + steps * (full_s - target_s) * decode_s / rest_s


def _is(ticket: Ticket, state: State) -> bool:
    return ticket.state is state
