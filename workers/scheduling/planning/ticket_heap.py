"""Tickets in one state, the least key first."""

import heapq

from workers.scheduling.ticket import State, Ticket

LEAST_SWEPT = 1000


class TicketHeap:
    """A ticket that has moved on is dropped when it comes up, and with all like it when they are the most."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._entries: list[tuple[float, int, Ticket]] = []
        self._sweep_at = LEAST_SWEPT

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, key: float, ticket: Ticket) -> None:
        heapq.heappush(self._entries, (key, ticket.number, ticket))
        if len(self._entries) > self._sweep_at:
            self._entries = [entry for entry in self._entries if self._holds(entry)]
            heapq.heapify(self._entries)
            self._sweep_at = max(LEAST_SWEPT, 2 * len(self._entries))

    def first(self) -> Ticket | None:
        entries = self._entries
        while entries:
            if self._holds(entries[0]):
                return entries[0][2]
            heapq.heappop(entries)
        return None

    def pop(self) -> None:
        """Removes `first()`."""
        heapq.heappop(self._entries)

    def _holds(self, entry: tuple[float, int, Ticket]) -> bool:
        """A ticket gets another number when it goes to another pool, where it may be in the same state."""
        ticket = entry[2]
        return ticket.state is self._state and ticket.number == entry[1]
