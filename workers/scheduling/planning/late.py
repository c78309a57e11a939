"""Work that cannot be in time any more, and what is owed to it all the same."""

from workers.scheduling.planning.ticket_heap import TicketHeap
from workers.scheduling.ranks import by_rank
from workers.scheduling.ticket import State, Ticket
from workers.scheduling.tuning import CLASS_WEIGHTS


class LateTickets:
    """By class, in the order in which they would be given up.

    A class keeps its guaranteed share though its work is late: what others are sent meanwhile is owed to it by weight,
    less what it is sent itself. A class of which nothing late waits is owed nothing.
    """

    def __init__(self) -> None:
        self._heaps: dict[int, TicketHeap] = {}
        self._owed_s: dict[int, float] = {}

    def push(self, ticket: Ticket) -> None:
        rank = ticket.request.rank
        heap = self._heaps.get(rank)
        if heap is None:
            heap = self._heaps[rank] = TicketHeap(State.LATE)
        heap.push(ticket.give_up_at, ticket)

    def first(self) -> Ticket | None:
        found: Ticket | None = None
        for heap in self._heaps.values():
            ticket = heap.first()
            if ticket is not None and (found is None or ticket.give_up_at < found.give_up_at):
                found = ticket
        return found

    def above(self, rank: int) -> Ticket | None:
        """The first of the highest class, if that is above the rank."""
        for known in sorted(self._heaps):
            if known >= rank:
                break
            ticket = self._heaps[known].first()
            if ticket is not None:
                return ticket
        return None

    def pop(self, ticket: Ticket) -> None:
        """Removes `first()`, or the first of its class."""
        self._heaps[ticket.request.rank].pop()

    def sent(self, sent: Ticket) -> None:
        """Any ticket was, while others wait."""
        weight = by_rank(CLASS_WEIGHTS, sent.request.rank)
        for rank, heap in self._heaps.items():
            if heap.first() is None:
                self._owed_s.pop(rank, None)
                continue
            owed_s = self._owed_s.get(rank, 0.0)
            if rank == sent.request.rank:
                self._owed_s[rank] = max(0.0, owed_s - sent.cost_s)
            else:
                self._owed_s[rank] = owed_s + sent.cost_s * by_rank(CLASS_WEIGHTS, rank) / weight

    def owed(self) -> Ticket | None:
        """The first of the highest class that is owed as much as it takes."""
        for rank in sorted(self._owed_s):
            ticket = self._heaps[rank].first()
            if ticket is not None and ticket.cost_s <= self._owed_s[rank]:
                return ticket
        return None
