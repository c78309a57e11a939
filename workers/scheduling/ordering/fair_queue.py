"""Tickets of several tenants of one class: the least served tenant first, by latest start within it."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from workers.scheduling.ticket import State, Ticket

MAX_CLOCKS = 10_000
LEAST_SWEPT = 1000
Entry = tuple[float, int, Ticket]
"""The negative of its latest start and of its number, so that the next of a tenant is the greatest."""


class FairQueue:
    """Each tenant has a clock of the service it got, in seconds of an endpoint by its weight.

    The gap between two tenants that both wait stays below one request. Who comes back after a pause starts at the
    clock of the least served: idling earns no credit.

    Whoever looks changes nothing. Tickets that have moved on are dropped when they come up, and all of them when they
    are the most.
    """

    def __init__(self) -> None:
        self._tenants: dict[str, list[Entry]] = {}
        self._clocks: dict[str, float] = {}
        self._by_clock: list[tuple[float, str]] = []
        self._floor = 0.0
        self._entries = 0
        self._sweep_at = LEAST_SWEPT
        self.changes = 0

    def __len__(self) -> int:
        """With what has moved on."""
        return self._entries

    def push(self, tenant_id: str, ticket: Ticket) -> None:
        entries = self._tenants.get(tenant_id)
        if entries is None:
            self.first()
            entries = self._begin_to_wait(tenant_id)
        entry = (-ticket.start_by, -ticket.number, ticket)
        place = bisect_left(entries, entry)
        if place < len(entries) and entries[place] == entry:  # it was let go and is kept again
            return
        entries.insert(place, entry)
        self._entries += 1
        if self._entries > self._sweep_at:
            self._sweep()

    def first(self) -> Entry | None:
        """The head of the least served tenant, by latest start; None when nothing waits. It stays."""
        while self._by_clock:
            clock, tenant_id = self._by_clock[0]
            head = self._head_of(tenant_id)
            if head is not None:
                if clock > self._floor:
                    self._floor = clock
                    self.changes += 1
                return head
            del self._tenants[tenant_id], self._by_clock[0]
        return None

    def waiting(self) -> Iterator[Ticket]:
        """From `first()` on, in the order in which they would go if nobody were charged for it."""
        for _, tenant_id in self._by_clock:
            entries = self._tenants[tenant_id]
            for place in range(len(entries) - 1, -1, -1):
                entry = entries[place]
                if _is_kept(entry):
                    yield entry[2]
                else:
                    del entries[place]
                    self._entries -= 1

    def served(self, tenant_id: str, service_s: float) -> None:
        """Charges the tenant for what was sent, over its weight."""
        self._set_clock(tenant_id, self._clocks.get(tenant_id, self._floor) + service_s)
        if len(self._clocks) > MAX_CLOCKS + len(self._tenants):
            self._forget_clocks()

    def served_at_once(self, tenant_id: str, service_s: float) -> None:
        """The same as `push`, `first` and `served` of a ticket while nobody waits."""
        clock = max(self._clocks.get(tenant_id, 0.0), self._floor)
        self._floor = clock
        self._set_clock(tenant_id, clock + service_s)
        if len(self._clocks) > MAX_CLOCKS + len(self._tenants):
            self._forget_clocks()

    def _begin_to_wait(self, tenant_id: str) -> list[Entry]:
        clock = max(self._clocks.get(tenant_id, 0.0), self._floor)
        self._set_clock(tenant_id, clock)
        insort(self._by_clock, (clock, tenant_id))
        entries = self._tenants[tenant_id] = []
        return entries

    def _set_clock(self, tenant_id: str, clock: float) -> None:
        before = self._clocks.get(tenant_id)
        if before == clock:
            return
        self.changes += 1
        self._clocks[tenant_id] = clock
        if before is not None and tenant_id in self._tenants:
            del self._by_clock[bisect_left(self._by_clock, (before, tenant_id))]
            insort(self._by_clock, (clock, tenant_id))

    def _head_of(self, tenant_id: str) -> Entry | None:
        """None when nothing of the tenant waits any more."""
        entries = self._tenants[tenant_id]
        while entries and not _is_kept(entries[-1]):
            entries.pop()
            self._entries -= 1
        return entries[-1] if entries else None

    def _sweep(self) -> None:
        """Tenants of which nothing waits any more go with what was theirs."""
        for tenant_id in list(self._tenants):
            kept = [entry for entry in self._tenants[tenant_id] if _is_kept(entry)]
            if kept:
                self._tenants[tenant_id] = kept
            else:
                del self._tenants[tenant_id]
        self._by_clock = sorted((self._clocks[tenant_id], tenant_id) for tenant_id in self._tenants)
        self._entries = sum(map(len, self._tenants.values()))
        self._sweep_at = max(LEAST_SWEPT, 2 * self._entries)
        if len(self._clocks) > MAX_CLOCKS + len(self._tenants):
            self._forget_clocks()

    def _forget_clocks(self) -> None:
        for tenant_id in [known for known in self._clocks if known not in self._tenants]:
            del self._clocks[tenant_id]


def _is_kept(entry: Entry) -> bool:
    """As it was when it was put here."""
    before, number, ticket = entry
    return ticket.state is State.KEPT and ticket.number == -number and ticket.start_by == -before
