"""Tickets of several service classes: the most urgent first, as long as every class gets its share."""

from collections.abc import Iterator

from workers.scheduling.ordering.fair_queue import MAX_CLOCKS, FairQueue
from workers.scheduling.ranks import by_rank
from workers.scheduling.request import sound_weight
from workers.scheduling.ticket import Ticket
from workers.scheduling.tuning import CLASS_WEIGHTS


class ClassQueue:
    """Each class has a clock of the service it got over its weight, as tenants have within it.

    Of the classes that wait, those no more than `lead_s` ahead of the least served one compete by latest start: a
    flooded class delays no other beyond that, an idle share is lent, and no class starves. Without `is_fair` all
    tickets count as one tenant's of one class.

    A tenant's weight is the last that was told, for all that waits of it.
    """

    def __init__(self, lead_s: float, *, is_fair: bool) -> None:
        self._lead_s = lead_s
        self._is_fair = is_fair
        self._queues: dict[int, FairQueue] = {}
        self._clocks: dict[int, float] = {}
        self._weights: dict[str, float] = {}
        self._floor = 0.0
        self._moves = 0

    @property
    def changes(self) -> int:
        """Changes whenever a clock or a floor does: then it may be another's turn."""
        changes = self._moves
        for queue in self._queues.values():
            changes += queue.changes
        return changes

    def set_weight(self, tenant_id: str, weight: float) -> None:
        self._weights[tenant_id] = sound_weight(weight)
        if len(self._weights) > MAX_CLOCKS:
            del self._weights[next(iter(self._weights))]

    def push(self, ticket: Ticket) -> None:
        rank, tenant_id = self._place_of(ticket)
        queue = self._queue_of(rank)
        if queue.first() is None:
            self._set_clock(rank, max(self._clocks.get(rank, 0.0), self._floor))
        queue.push(tenant_id, ticket)

    def first(self) -> Ticket | None:
        """The next ticket; None when there is none. It stays until it is sent, or let go."""
        return next(self.look(), None)

    def highest_rank(self) -> int | None:
        """Of all that wait."""
        highest: int | None = None
        for rank in self._waiting_ranks():
            if highest is None or rank < highest:
                highest = rank
        return highest

    def look(self) -> Iterator[Ticket]:
        """All that wait, in the order in which they would go if nobody were charged for it."""
        ranks = self._waiting_ranks()
        if not ranks:
            return iter(())
        if len(ranks) == 1:
            self._set_floor(self._clocks[ranks[0]])
            return self._queues[ranks[0]].waiting()
        self._set_floor(min([self._clocks[rank] for rank in ranks]))
        return self._merged(ranks)

    def _waiting_ranks(self) -> list[int]:
        return [rank for rank, queue in self._queues.items() if queue.first() is not None]

    def _merged(self, ranks: list[int]) -> Iterator[Ticket]:
        waiting = {rank: self._queues[rank].waiting() for rank in ranks}
        heads = {rank: next(waiting[rank]) for rank in ranks}
        while heads:
            rank = self._next_of(heads)
            yield heads[rank]
            head = next(waiting[rank], None)
            if head is None:
                del heads[rank]
            else:
                heads[rank] = head

    def _next_of(self, heads: dict[int, Ticket]) -> int:
        """The class whose turn it is, of those whose heads these are."""
        latest = min(self._clocks[rank] for rank in heads) + self._lead_s
        urgent = ((head.start_by, head.number, rank) for rank, head in heads.items() if self._clocks[rank] <= latest)
        return min(urgent)[2]

    def served(self, ticket: Ticket, service_s: float) -> None:
        """Charges class and tenant: for a ticket that was sent what it is expected to take, at its end the rest.

        Less was taken where it is negative.
        """
        rank, tenant_id = self._place_of(ticket)
        self._set_clock(rank, self._clocks.get(rank, self._floor) + service_s / by_rank(CLASS_WEIGHTS, rank))
        self._queue_of(rank).served(tenant_id, service_s / self._weight_of(ticket))

    def served_at_once(self, ticket: Ticket) -> None:
        """The same as `push`, `first` and `served` of a ticket while nobody waits."""
        rank, tenant_id = self._place_of(ticket)
        clock = max(self._clocks.get(rank, 0.0), self._floor)
        self._set_floor(clock)
        self._clocks[rank] = clock + ticket.cost_s / by_rank(CLASS_WEIGHTS, rank)
        self._queue_of(rank).served_at_once(tenant_id, ticket.cost_s / self._weight_of(ticket))

    def _weight_of(self, ticket: Ticket) -> float:
        request = ticket.request
        return self._weights.get(request.tenant_id, request.tenant_weight)

    def _set_clock(self, rank: int, clock: float) -> None:
        if self._clocks.get(rank) != clock:
            self._clocks[rank] = clock
            self._moves += 1

    def _set_floor(self, floor: float) -> None:
        if self._floor != floor:
            self._floor = floor
            self._moves += 1

    def _queue_of(self, rank: int) -> FairQueue:
        queue = self._queues.get(rank)
        if queue is None:
            queue = self._queues[rank] = FairQueue()
        return queue

    def _place_of(self, ticket: Ticket) -> tuple[int, str]:
        return (ticket.request.rank, ticket.request.tenant_id) if self._is_fair else (0, "")
