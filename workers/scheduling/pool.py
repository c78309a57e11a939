"""The queue in front of one model version: plan, order and endpoints together."""

from math import ceil

from workers.scheduling.appraisal import Appraiser
from workers.scheduling.decision import Decision
from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.fleet import Fleet
from workers.scheduling.latency.lengths import LengthModel
from workers.scheduling.ordering.class_queue import ClassQueue
from workers.scheduling.planning.plan import Plan
from workers.scheduling.ticket import State, Ticket
from workers.scheduling.tuning import CLASS_WEIGHTS, Tuning, by_rank
from workers.scheduling.workflows import Workflows

LOOK_AHEAD = 2
LOOK_AHEAD_AT_TICK = 8
MAX_RETRY_AFTER_S = 60
MAX_HOLD_UP_S = 0.5
Choice = tuple[Ticket, EndpointModel]


class Pool:
    """`fill` says what is sent now, `advance` what is refused."""

    def __init__(self, tuning: Tuning, lengths: LengthModel, workflows: Workflows, now: float) -> None:
        self._tuning = tuning
        self.appraiser = Appraiser(tuning, lengths, workflows)
        self.fleet = Fleet(tuning, self.appraiser)
        self.plan = Plan(tuning, now)
        self._queue = ClassQueue(tuning.class_lead_s, is_fair=tuning.is_fair)
        self.waiting: dict[int, Ticket] = {}
        self._unappraised: dict[int, Ticket] = {}

    # endpoints

    def add_endpoint(self, endpoint: EndpointModel, now: float) -> None:
        self.fleet.add(endpoint, now)
        self.plan.resize(len(self.fleet.endpoints), now)
        unappraised, self._unappraised = self._unappraised, {}
        for ticket in unappraised.values():
            self._enter(ticket, now)

    def remove_endpoint(self, endpoint: EndpointModel, now: float) -> None:
        self.fleet.remove(endpoint)
        self.plan.resize(len(self.fleet.endpoints), now)

    # tickets

    def arrive(self, ticket: Ticket, now: float) -> None:
        self.waiting[ticket.number] = ticket
        if self.fleet.endpoints:
            self._enter(ticket, now)
        else:
            self._unappraised[ticket.number] = ticket

    def withdraw(self, ticket: Ticket) -> None:
        del self.waiting[ticket.number]
        if self._unappraised.pop(ticket.number, None) is None:
            self.plan.leave(ticket, State.GONE)

    def advance(self, now: float) -> list[Ticket]:
        """Tickets to refuse; they are still waiting."""
        for ticket in self.plan.advance(self.fleet.backlog_s(now), now):
            self._queue.push(ticket)
        self.fleet.load = self.plan.prices.load
        return self.plan.given_up(now)

    def fill(self, now: float, look_ahead: int = LOOK_AHEAD) -> list[Choice]:
        """`look_ahead` bounds how many tickets are passed over that wait for a better endpoint than those open."""
        sent: list[Choice] = []
        while self.waiting and self.fleet.open_due(now):
            choice = self._next_kept(now, look_ahead) or self._next_spare(now)
            if choice is None:
                break
            self._send(*choice, now)
            sent.append(choice)
        return sent

    def retry_after_s(self, now: float) -> int:
        """Seconds until more would be taken, as far as can be told; at least 1."""
        wait_s = self.plan.retry_after_s(self.fleet.backlog_s(now))
        return min(MAX_RETRY_AFTER_S, max(1, ceil(wait_s)))

    def decision(self, ticket: Ticket, outcome: str, now: float) -> Decision:
        return Decision(
            request_id=ticket.request.request_id,
            at=now,
            outcome=outcome,
            start_by=ticket.start_by,
            cost_s=ticket.cost_s,
            density=ticket.density,
            bid_price=self.plan.prices.price_of(ticket.request.tenant_id),
            endpoint_id=ticket.endpoint.endpoint_id if ticket.endpoint is not None else "",
            considered=tuple(self.fleet.considered),
        )

    def _enter(self, ticket: Ticket, now: float) -> None:
        endpoints = self.fleet.endpoints
        some = next(iter(endpoints.values()))
        self.appraiser.appraise(ticket, self.fleet.index, some, len(endpoints))
        self.plan.arrive(ticket, self._fair_weight(ticket), now)
        if ticket.state is State.KEPT:
            self._queue.push(ticket)
        self.plan.relieve(self.fleet.backlog_s(now), now)
        self.fleet.load = self.plan.prices.load

    def _fair_weight(self, ticket: Ticket) -> float:
        request = ticket.request
        return by_rank(CLASS_WEIGHTS, request.rank) * request.tenant_weight

    def _send(self, ticket: Ticket, endpoint: EndpointModel, now: float) -> None:
        self.plan.leave(ticket, State.SENT)
        del self.waiting[ticket.number]
        ticket.endpoint = endpoint
        ticket.sent_at = now
        ticket.attempts += 1
        self._queue.served(ticket)
        self.fleet.sent(ticket, endpoint, now)

    # who is next

    def _next_kept(self, now: float, look_ahead: int) -> Choice | None:
        """A ticket whose best endpoint is worth waiting for is passed over."""
        passed: dict[int, Ticket] = {}
        choice = None
        while choice is None and len(passed) < look_ahead:
            ticket = self._queue.pop()
            if ticket is None:
                break
            endpoint = self.fleet.choose(ticket, now)
            if endpoint is not None:
                choice = (ticket, endpoint)
            else:
                passed[ticket.number] = ticket
        for ticket in passed.values():
            self._queue.push(ticket)
        return choice

    def _next_spare(self, now: float) -> Choice | None:
        """When nothing of the plan can go: what was let go, on an endpoint without prefill.

        A parked ticket can still be in time; a late one goes while most of the fleet has nothing to do.
        """
        idle = self.fleet.idle()
        if not idle or len(self.plan.slots):
            return None
        parked = self.plan.densest_parked(now)
        if parked is not None and (len(idle) > 1 or parked.prefill_s < MAX_HOLD_UP_S):
            return self._try_on_idle(parked, now)
        late = self.plan.next_late()
        if late is not None and 2 * len(idle) > len(self.fleet.endpoints):
            return self._try_on_idle(late, now)
        return None

    def _try_on_idle(self, ticket: Ticket, now: float) -> Choice | None:
        endpoint = self.fleet.choose(ticket, now)
        return (ticket, endpoint) if endpoint is not None and not endpoint.prefilling else None
