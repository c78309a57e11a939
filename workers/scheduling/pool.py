"""The queue in front of one model version: plan, order and endpoints together."""

from collections import deque
from math import ceil, inf

from workers.scheduling.appraisal import Appraiser
from workers.scheduling.batching import BatchWindow
from workers.scheduling.decision import Draft
from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.endpoint_spec import EndpointSpec
from workers.scheduling.fleet import Fleet
from workers.scheduling.latency.lengths import LengthModel
from workers.scheduling.next_ticket import NextTicket
from workers.scheduling.ordering.class_queue import ClassQueue
from workers.scheduling.planning.plan import Plan
from workers.scheduling.planning.price import PRICED_LOAD
from workers.scheduling.planning.returns import Returns
from workers.scheduling.ranks import by_rank
from workers.scheduling.ticket import State, Ticket
from workers.scheduling.tuning import CLASS_WEIGHTS, Tuning
from workers.scheduling.workflows import Workflows

LOOK_AHEAD = 2
LOOK_AHEAD_AT_TICK = 8
MAX_RETRY_AFTER_S = 60.0
"""What official clients wait at the most; told more, they come back as if they had been told nothing."""
CROWDED_LOAD = 1.0
Choice = tuple[Ticket, EndpointModel, int]
"""What is sent where, and the number of its batch, 0 for none."""


class Pool:
    """`arrive` and `fill` say what is sent now, `advance` what is refused."""

    def __init__(
        self, tuning: Tuning, lengths: LengthModel, workflows: Workflows, drafts: deque[Draft], now: float
    ) -> None:
        self._tuning = tuning
        self._drafts = drafts
        self.appraiser = Appraiser(tuning, lengths, workflows)
        self.plan = Plan(tuning, now)
        self.fleet = Fleet(tuning, self.appraiser, self.plan.prices)
        self._queue = ClassQueue(tuning.class_lead_s, is_fair=tuning.is_fair)
        self.waiting: dict[int, Ticket] = {}
        self._unappraised: dict[int, Ticket] = {}
        self._is_speed_known = True
        self._next = NextTicket(self.plan, self._queue, self.fleet)
        self._batch: BatchWindow | None = None
        self._returns = Returns()
        self.usable_at = -inf

    # endpoints

    def add_endpoint(self, endpoint: EndpointModel, now: float) -> None:
        self.fleet.add(endpoint, now)
        self.plan.resize(self.fleet.capacity(), now)
        self._is_speed_known = self._is_speed_known and self.fleet.is_speed_known()
        self._gather_as(endpoint.spec)
        unappraised, self._unappraised = self._unappraised, {}
        for ticket in unappraised.values():
            self._appraise(ticket, now)
            self._enter(ticket, now)
        if self._batch is not None:
            self._batch.rebuild(self.waiting.values())

    def _gather_as(self, spec: EndpointSpec) -> None:
        """The last word of an engine that does not batch by itself counts."""
        batching = spec.batching
        if batching is not None and (self._batch is None or self._batch.batching != batching):
            self._batch = BatchWindow(batching)
            self._batch.rebuild(self.waiting.values())

    def endpoint_adapted(self, spec: EndpointSpec) -> None:
        self._gather_as(spec)

    def endpoint_changed(self, endpoint: EndpointModel, now: float) -> None:
        """One that wakes may be of unknown speed."""
        self.fleet.meet_kin(endpoint)
        self.fleet.touch(endpoint, now)
        self._is_speed_known = self._is_speed_known and self.fleet.is_speed_known()

    def remove_endpoint(self, endpoint: EndpointModel, now: float) -> None:
        self.fleet.remove(endpoint)
        self.plan.resize(self.fleet.capacity(), now)

    # tickets

    def arrive(self, ticket: Ticket, now: float) -> EndpointModel | None:
        """Where the ticket runs at once; None when it waits."""
        if not self.fleet.endpoints:
            self._await_endpoints(ticket)
            return None
        self._queue.set_weight(ticket.request.tenant_id, ticket.request.tenant_weight)
        self._appraise(ticket, now)
        is_first = not self.waiting and not self.is_too_late(ticket, now)
        if is_first and self._needs_no_plan(ticket, now) and self.fleet.open_due(now):
            endpoint = self.fleet.choose(ticket, now)
            if endpoint is not None and not self._next.comes_too_late(ticket):
                self._queue.served_at_once(ticket)
                self._next.passed_over()
                self._hand_over(ticket, endpoint, now)
                return endpoint
        self.waiting[ticket.number] = ticket
        self._enter(ticket, now)
        if self._batch is not None:
            self._batch.joined(ticket)
        return None

    def _await_endpoints(self, ticket: Ticket) -> None:
        """Nothing can be said of it but when it is too late."""
        deadline_at = ticket.request.deadline_at
        ticket.state = State.NEW
        ticket.hopeless_at = inf if deadline_at is None else deadline_at
        self.waiting[ticket.number] = self._unappraised[ticket.number] = ticket

    def _needs_no_plan(self, ticket: Ticket, now: float) -> bool:
        """Of one that comes while nobody waits: whether the plan would keep it, and let it go first."""
        if self._batch is not None or not self.plan.admits(ticket, now):
            return False
        is_calm = self.plan.prices.load <= PRICED_LOAD or not ticket.has_limit
        return is_calm or self.plan.holds_alone(ticket, self.fleet.backlog(now), now)

    def set_weight(self, tenant_id: str, weight: float) -> None:
        """Of what waits of the tenant; its share of the price changes with its next request."""
        self._queue.set_weight(tenant_id, weight)

    def withdraw(self, ticket: Ticket) -> None:
        del self.waiting[ticket.number]
        self._unappraised.pop(ticket.number, None)
        self.plan.leave(ticket, State.GONE)

    def note_usable(self, now: float) -> bool:
        """Whether an endpoint may be sent anything; remembers when that was so last."""
        is_usable = self.fleet.any_usable(now)
        if is_usable:
            self.usable_at = now
        return is_usable

    def is_too_late(self, ticket: Ticket, now: float) -> bool:
        """Whether not even its first token could come before its deadline; the length of its answer is only a guess."""
        deadline_at = ticket.request.deadline_at
        return deadline_at is not None and deadline_at - ticket.first_token_s < now

    def cannot_make(self, ticket: Ticket, now: float) -> bool:
        """Whether a waiting ticket has no prospect here of being in time."""
        return ticket.state in {State.PARKED, State.LATE} or not self.fleet.any_usable(now)

    def answered(self, ticket: Ticket, endpoint: EndpointModel, output_tokens: int, now: float) -> None:
        self.appraiser.answered(ticket, endpoint, output_tokens, now)
        if output_tokens:
            self.settle(ticket, endpoint, output_tokens)
        if not endpoint.spec.is_speed_known and endpoint.decode_speed.leans():
            self.fleet.share_speed()

    def settle(self, ticket: Ticket, endpoint: EndpointModel, output_tokens: int) -> None:
        """Charges what it has taken by now, in place of what was expected: who is hard to predict pays no less."""
        service_s = self.appraiser.service_s(ticket, endpoint, output_tokens)
        self._queue.served(ticket, service_s - ticket.cost_s)
        ticket.cost_s = service_s

    def has_room(self, now: float) -> bool:
        """For one that could not make it elsewhere."""
        return not self.waiting and self.plan.prices.load <= CROWDED_LOAD and self.fleet.open_due(now)

    def advance(self, now: float) -> list[Ticket]:
        """Tickets to refuse; they are still waiting."""
        if not self._is_speed_known and self.fleet.is_speed_known():
            self._is_speed_known = True
            self._judge_again(now)
        self.fleet.open_due(now)
        self.plan.follow(self.fleet.capacity(), now)
        for ticket in self.plan.advance(self.fleet.backlog(now), now):
            self._queue.push(ticket)
        return self.plan.given_up(now) if self._is_speed_known else []

    def _judge_again(self, now: float) -> None:
        """Whoever came before the speed was known has had no limit, and was thought to be cheap."""
        for ticket in [waiting for waiting in self.waiting.values() if waiting.state is not State.NEW]:
            self.plan.leave(ticket, State.NEW)
            self._appraise(ticket, now)
            self._enter(ticket, now)

    def fill(self, now: float, look_ahead: int = LOOK_AHEAD) -> list[Choice]:
        """`look_ahead` bounds how many tickets are passed over that wait for a better endpoint than those open."""
        if self._batch is not None:
            return self._fill_batches(self._batch, now)
        sent: list[Choice] = []
        while self.waiting and self.fleet.open_due(now) and not self._next.stands_still(look_ahead, now):
            choice = self._next.find(look_ahead, now)
            if choice is None:
                break
            ticket, endpoint = choice
            self._send(ticket, endpoint, now)
            sent.append((ticket, endpoint, 0))
        return sent

    def next_opening_at(self) -> float:
        """When something may be sent without another event."""
        opening_at = self.fleet.next_opening_at()
        if self._batch is None or not self.fleet.unused():
            return opening_at
        return min(opening_at, self._batch.closes_at)

    def ready_in_s(self, now: float, patience_s: float) -> int:
        """Until an endpoint is there, where one is on its way; at least 1."""
        ready_at = min((endpoint.ready_at for endpoint in self.fleet.endpoints.values()), default=inf)
        wait_s = ready_at - now if now < ready_at < inf else patience_s
        return max(1, ceil(wait_s))

    def retry_after_s(self, ticket: Ticket, now: float) -> int:
        """Seconds until there is room for it beside those who were told to come back before; at least 1."""
        wait_s = self.plan.retry_after_s(self.fleet.backlog(now))
        cost_s = ticket.cost_s / self.plan.slots.capacity
        told_s = self._returns.told_s(ticket.request.rank, cost_s, wait_s=wait_s, longest_s=MAX_RETRY_AFTER_S, now=now)
        return max(1, ceil(told_s))

    def explain(self, ticket: Ticket, outcome: str, waited_as: State, now: float, reason: str = "") -> None:
        """Notes a decision, for whoever asks."""
        endpoint = ticket.endpoint
        bid_price = self.plan.prices.price_of(ticket.request.tenant_id)
        self._drafts.append(
            Draft(
                ticket=ticket,
                at=now,
                outcome=outcome,
                waited_as=waited_as,
                bid_price=bid_price,
                endpoint_id=endpoint.endpoint_id if endpoint else "",
                considered=self.fleet.considered() if endpoint else [],
                reason=reason,
            )
        )

    def _appraise(self, ticket: Ticket, now: float) -> None:
        self.fleet.lookup.find(ticket)
        self.appraiser.appraise(
            ticket, self.fleet.endpoints, self.plan.slots.capacity, is_speed_known=self._is_speed_known
        )
        self.plan.note(ticket, self._fair_weight(ticket), now)
        self.fleet.held.arrived(ticket.request.rank, self.appraiser.stay_s(ticket), now)

    def _enter(self, ticket: Ticket, now: float) -> None:
        self.plan.arrive(ticket, now)
        if ticket.state is State.KEPT:
            self._queue.push(ticket)
        self.plan.relieve(self.fleet.backlog(now), now)

    def _fair_weight(self, ticket: Ticket) -> float:
        request = ticket.request
        return by_rank(CLASS_WEIGHTS, request.rank) * request.tenant_weight

    def _send(self, ticket: Ticket, endpoint: EndpointModel, now: float) -> None:
        del self.waiting[ticket.number]
        self._queue.served(ticket, ticket.cost_s)
        self.plan.late.sent(ticket)
        self._hand_over(ticket, endpoint, now)

    def _hand_over(self, ticket: Ticket, endpoint: EndpointModel, now: float) -> None:
        ticket.endpoint = endpoint
        ticket.sent_at = now
        ticket.attempts += 1
        self.explain(ticket, "sent", ticket.state, now)
        self.plan.leave(ticket, State.SENT)
        self.fleet.sent(ticket, endpoint, now)

    # engines without continuous batching

    def _fill_batches(self, window: BatchWindow, now: float) -> list[Choice]:
        """One batch to every open endpoint that has nothing to do, as long as a batch is due."""
        sent: list[Choice] = []
        self.fleet.open_due(now)
        for endpoint in self.fleet.unused():
            if not self.waiting or not window.is_due(now):
                break
            members = self._form_batch(window, endpoint, now)
            batch = window.next_number()
            sent += [(ticket, endpoint, batch) for ticket in members]
            window.rebuild(self.waiting.values())
        return sent

    def _form_batch(self, window: BatchWindow, endpoint: EndpointModel, now: float) -> list[Ticket]:
        members: list[Ticket] = []
        tokens = 0
        while endpoint.has_slot() and len(members) < window.batching.max_requests:
            ticket = self._next_of_batch(now, is_first=not members)
            if ticket is None:
                break
            tokens += ticket.prompt_tokens
            if members and tokens > window.batching.max_tokens:
                break
            self.fleet.consider_only(endpoint, ticket.prefill_s)
            self._send(ticket, endpoint, now)
            members.append(ticket)
        return members

    def _next_of_batch(self, now: float, *, is_first: bool) -> Ticket | None:
        """As one by one; but late work costs next to nothing where there is room in a batch."""
        owed = (self.plan.next_overdue(now) if is_first else None) or self.plan.late.owed()
        return owed or self._queue.first() or self.plan.densest_parked(now) or self.plan.late.first()
