"""Which of the waiting tickets are to be served in time, which are let go, and which are refused."""

from math import inf

from workers.scheduling.planning.backlog import Backlog
from workers.scheduling.planning.late import LateTickets
from workers.scheduling.planning.price import PRICE_EVERY_S, PRICED_LOAD, WINDOW_S, BidPrices
from workers.scheduling.planning.slots import DeadlineSlots
from workers.scheduling.planning.ticket_heap import TicketHeap
from workers.scheduling.ticket import State, Ticket
from workers.scheduling.tuning import Tuning

UNPARK_TRIES = 2
BUSY_LOAD = 1.1
OVERDUE_S = 60.0
IDLE_SHARE = 0.5
RARE_LOAD = 0.2
MISSED_AFTER_S = 1.0
GUARD = 1e6
"""Who asks for no more than a fair share gives way after all who ask for more, whatever the value of each."""


class Plan:
    """A ticket with a limit is kept, parked or late; one without is always kept, and never counted.

    Kept tickets can all be served in time by a fleet of `capacity` endpoints with the backlog that its engines have.
    When they cannot, the least dense of the first overloaded stretch is parked (Moore and Hodgson's rule, by value
    density); so is, on arrival, what is below the bid price.
    """

    def __init__(self, tuning: Tuning, now: float) -> None:
        self._relief_s, self._fill = tuning.relief_s, tuning.fill
        self.slots = DeadlineSlots(1.0, now)
        self.prices = BidPrices(tuning.fill, is_fair=tuning.is_fair)
        self._price_at = -inf
        self._fewer_since = inf
        self._parked = TicketHeap(State.PARKED)
        self._expiring = (TicketHeap(State.KEPT), TicketHeap(State.PARKED))
        self.late = LateTickets()
        self.changes = 0

    @property
    def is_overloaded(self) -> bool:
        return self.prices.lasting_load > BUSY_LOAD

    def follow(self, capacity: int, now: float) -> None:
        """Some endpoints wake, drain or pause; what pauses for a moment is back before it is missed."""
        if capacity >= self.slots.capacity:
            self._fewer_since = inf
        elif self._fewer_since == inf:
            self._fewer_since = now
        if capacity > self.slots.capacity or now - self._fewer_since >= MISSED_AFTER_S:
            self.resize(capacity, now)

    def resize(self, capacity: int, now: float) -> None:
        self._fewer_since = inf
        self.slots.rebase(max(1.0, float(capacity)), now)

    # changes of state

    def note(self, ticket: Ticket, fair_weight: float, now: float) -> None:
        """Counts a newcomer in what is asked for."""
        steps_s, kv_s = ticket.cost_s - ticket.kv_s, ticket.room_s
        self.prices.arrived(
            ticket.request.tenant_id, fair_weight, density=ticket.density, steps_s=steps_s, kv_s=kv_s, now=now
        )
        if ticket.is_in_vain:
            self.prices.note_in_vain(ticket.density, steps_s, kv_s, now)
        self._update_price(now)

    def admits(self, ticket: Ticket, now: float) -> bool:
        """Whether a newcomer would be kept, as far as it and the price go."""
        if not ticket.has_limit:
            return True
        return ticket.start_by >= now and ticket.density >= self.prices.price_of(ticket.request.tenant_id)

    def holds_alone(self, ticket: Ticket, backlog: Backlog, now: float) -> bool:
        """Whether `relieve` is sure to leave it, if nobody else waits."""
        return not self.slots.is_overloaded_with(ticket, now, backlog, self._relief_s)

    def arrive(self, ticket: Ticket, now: float) -> None:
        """Leaves the ticket kept, parked or late; it was noted."""
        if self.admits(ticket, now):
            self.keep(ticket)
        elif ticket.start_by < now:
            self.be_late(ticket)
        else:
            self._park(ticket)

    def keep(self, ticket: Ticket) -> None:
        self.changes += 1
        ticket.state = State.KEPT
        if ticket.has_limit:
            ticket.guard = GUARD if self.prices.is_within_share(ticket.request.tenant_id) else 1.0
            self.slots.add(ticket)
            self._expiring[0].push(ticket.start_by, ticket)

    def leave(self, ticket: Ticket, state: State) -> None:
        """The ticket is sent, or gone."""
        self.changes += 1
        if ticket.state is State.KEPT and ticket.has_limit:
            self.slots.remove(ticket)
        ticket.state = state

    def be_late(self, ticket: Ticket) -> None:
        """A kept or parked ticket cannot be in time any more."""
        self.leave(ticket, State.LATE)
        self.late.push(ticket)

    def relieve(self, backlog: Backlog, now: float) -> None:
        while (ticket := self.slots.overloaded_by(now, backlog, self._relief_s)) is not None:
            self._park(ticket)

    def _park(self, ticket: Ticket) -> None:
        self.leave(ticket, State.PARKED)
        self._parked.push(-ticket.density, ticket)
        self._expiring[1].push(ticket.start_by, ticket)

    def _update_price(self, now: float) -> None:
        if now - self._price_at >= PRICE_EVERY_S:
            self._price_at = now
            self.changes += 1
            self.prices.update(self.slots.capacity, now)

    # time

    def advance(self, backlog: Backlog, now: float) -> list[Ticket]:
        """What becomes late is put aside; what was parked and fits again is kept, and returned."""
        self._update_price(now)
        self.slots.advance(now)
        for expiring in self._expiring:
            while (ticket := expiring.first()) is not None and ticket.start_by < now:
                expiring.pop()
                self.be_late(ticket)
        self.relieve(backlog, now)
        return self._unpark(backlog, now)

    def _unpark(self, backlog: Backlog, now: float) -> list[Ticket]:
        """The densest first; the slots decide whether it fits."""
        back = []
        for _ in range(UNPARK_TRIES):
            ticket = self.densest_parked(now)
            if ticket is None or ticket.density < self.prices.price_of(ticket.request.tenant_id):
                break
            self._parked.pop()
            self.keep(ticket)
            self.relieve(backlog, now)
            if ticket.state is not State.KEPT:
                break
            back.append(ticket)
        return back

    def given_up(self, now: float) -> list[Ticket]:
        """Late tickets that have waited long enough while more came than can be done; they must be withdrawn now."""
        gone: dict[int, Ticket] = {}  # one that was judged again lies there twice
        while self.is_overloaded and (ticket := self.late.first()) is not None and ticket.give_up_at <= now:
            self.late.pop(ticket)
            gone[ticket.number] = ticket
        return list(gone.values())

    # what may run when nothing kept can

    def densest_parked(self, now: float) -> Ticket | None:
        """It stays parked; whoever takes it calls `leave`."""
        while (ticket := self._parked.first()) is not None:
            if ticket.start_by >= now:
                return ticket
            self._parked.pop()
            self.be_late(ticket)
        return None

    def late_leaves_idle(self) -> float:
        """The share of the fleet that is left to what can be in time, when late work runs; 1: none of it does.

        That is half of it, and all while the fleet is well used; less where next to nothing could be in time.
        """
        least = IDLE_SHARE if self.prices.load <= PRICED_LOAD else 1.0
        return min(least, self.prices.timely_load / RARE_LOAD)

    def next_overdue(self, now: float) -> Ticket | None:
        """Late so long that it would be refused if more came than can be done. Since not, it must not wait for ever."""
        ticket = None if self.is_overloaded else self.late.first()
        return ticket if ticket is not None and ticket.give_up_at + OVERDUE_S <= now else None

    def next_overdue_at(self) -> float:
        """When there is one at the earliest."""
        ticket = self.late.first()
        return inf if ticket is None else ticket.give_up_at + OVERDUE_S

    def retry_after_s(self, backlog: Backlog) -> float:
        """When what was promised is done, and what came in excess has left the window."""
        drain_s = (self.slots.work_s + backlog.total_s) / self.slots.capacity
        excess = max(0.0, self.prices.load - self._fill)
        return drain_s + min(1.0, excess) * WINDOW_S
