"""Tickets in one state, the least key first."""

import heapq

from workers.scheduling.ticket import State, Ticket

LEAST_SWEPT = 1000
Entry = tuple[float, int, int, Ticket]
"""The key, and by what number and after how many attempts the ticket was put here."""


class TicketHeap:
    """A ticket that has moved on is dropped when it comes up, and with all like it when they are the most."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._entries: list[Entry] = []
        self._sweep_at = LEAST_SWEPT

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, key: float, ticket: Ticket) -> None:
        heapq.heappush(self._entries, (key, ticket.number, ticket.attempts, ticket))
        if len(self._entries) > self._sweep_at:
            self._entries = [entry for entry in self._entries if self._holds(entry)]
            heapq.heapify(self._entries)
            self._sweep_at = max(LEAST_SWEPT, 2 * len(self._entries))

    def first(self) -> Ticket | None:
        entries = self._entries
        while entries:
            if self._holds(entries[0]):
                return entries[0][3]
            heapq.heappop(entries)
        return None

    def pop(self) -> None:
        """Removes `first()`."""
        heapq.heappop(self._entries)

    def _holds(self, entry: Entry) -> bool:
        """A ticket may be in the same state again: in another pool, with another number, or after a failed attempt."""
        _, number, attempts, ticket = entry
        return ticket.state is self._state and ticket.number == number and ticket.attempts == attempts
