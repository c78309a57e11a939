"""What of a pool's queue goes next, and where."""

from math import inf

from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.fleet import Fleet
from workers.scheduling.ordering.class_queue import ClassQueue
from workers.scheduling.planning.plan import Plan
from workers.scheduling.planning.price import PRICED_LOAD
from workers.scheduling.ticket import Ticket

MAX_HOLD_UP_S = 0.5
SENDS_PER_OVERDUE = 64
Pair = tuple[Ticket, EndpointModel]


class NextTicket:
    """Now and then what has waited far too long, else late work of a class that is owed its share.

    Else what the plan keeps, in order, else what may have what that may not, else what was let go.
    """

    def __init__(self, plan: Plan, queue: ClassQueue, fleet: Fleet) -> None:
        self._plan = plan
        self._queue = queue
        self._fleet = fleet
        self._sends_until_overdue = 0
        self._seen = 0.0

    def find(self, look_ahead: int, now: float) -> Pair | None:
        """Some endpoint is open. `look_ahead` bounds how many are passed over that wait for a better one."""
        choice = self._overdue(now) or self._owed(now) or self._kept(now, look_ahead)
        choice = choice or self._barred(now) or self._spare(now)
        if choice is None:
            self._fleet.standstill.found(self._changes())
        return choice

    def stands_still(self, look_ahead: int, now: float) -> bool:
        """Whether looking again would find again that nothing can go; else `find` looks at who was not seen yet."""
        found = self._fleet.standstill
        self._seen = found.seen(self._changes(), now)
        if self._seen >= look_ahead:
            self.passed_over()
            return True
        if not self._seen:
            found.look(self._plan.next_overdue_at())
        found.looked_at(float(look_ahead))
        return False

    def passed_over(self) -> None:
        """What is overdue, by something else that went, or by nothing."""
        self._sends_until_overdue = max(0, self._sends_until_overdue - 1)

    def _overdue(self, now: float) -> Pair | None:
        """Seldom, so that it makes few others late."""
        if self._sends_until_overdue > 0:
            self._sends_until_overdue -= 1
            return None
        ticket = self._plan.next_overdue(now)
        endpoint = self._choose(ticket, now) if ticket is not None else None
        if ticket is None or endpoint is None:
            return None
        self._sends_until_overdue = SENDS_PER_OVERDUE
        return ticket, endpoint

    def _owed(self, now: float) -> Pair | None:
        ticket = self._plan.late.owed()
        endpoint = self._choose(ticket, now) if ticket is not None else None
        return None if ticket is None or endpoint is None else (ticket, endpoint)

    def _kept(self, now: float, look_ahead: int) -> Pair | None:
        """A ticket whose best endpoint is worth waiting for is passed over."""
        passed = 0
        for ticket in self._queue.look():
            endpoint = self._choose(ticket, now) if passed >= self._seen else None
            if endpoint is None:
                passed += 1
                if passed == look_ahead:
                    return None
            elif self.comes_too_late(ticket):
                self._plan.be_late(ticket)
            else:
                return ticket, endpoint
        self._fleet.standstill.looked_at(inf)
        return None

    def _barred(self, now: float) -> Pair | None:
        """Late work of a class above all that is kept: it takes what is held back from those, and would stand empty."""
        if self._plan.late.first() is None:
            return None
        rank = self._queue.highest_rank()
        late = self._plan.late.above(rank) if rank else None
        return self._try_on_idle(late, now) if late is not None and self._fleet.idle() else None

    def comes_too_late(self, ticket: Ticket) -> bool:
        """Where it was just chosen to go, and others could make it."""
        is_late = ticket.has_limit and self._fleet.first_token_at > ticket.first_token_by
        return is_late and (self._plan.prices.load > PRICED_LOAD or len(self._plan.slots) > 1)

    def _spare(self, now: float) -> Pair | None:
        """When nothing of the plan can go: what was let go, on an endpoint without prefill.

        A parked ticket can still be in time; a late one leaves so much idle as what can be in time may need.
        """
        idle = self._fleet.idle()
        if not idle or len(self._plan.slots):
            return None
        parked = self._plan.densest_parked(now)
        if parked is not None:
            self._fleet.standstill.ends_at(parked.start_by)
        if parked is not None and (len(idle) > 1 or parked.prefill_s < MAX_HOLD_UP_S):
            return self._try_on_idle(parked, now)
        late = self._plan.late.first()
        if late is None:
            return None
        is_left = len(idle) > self._plan.late_leaves_idle() * self._fleet.capacity()
        return self._try_on_idle(late, now) if is_left or self._fleet.runs_nothing else None

    def _try_on_idle(self, ticket: Ticket, now: float) -> Pair | None:
        endpoint = self._choose(ticket, now)
        if endpoint is None:
            return None
        if endpoint.prefilling:
            self._fleet.standstill.ends_at(now)
            return None
        return ticket, endpoint

    def _choose(self, ticket: Ticket, now: float) -> EndpointModel | None:
        self._fleet.lookup.find_again(ticket)
        return self._fleet.choose(ticket, now)

    def _changes(self) -> int:
        return self._fleet.changes + self._plan.changes + self._queue.changes
