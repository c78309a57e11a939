"""Tickets of several tenants of one class: the least served tenant first, by latest start within it."""

import heapq

from workers.scheduling.ticket import State, Ticket

MAX_CLOCKS = 10_000
LEAST_SWEPT = 1000
Entry = tuple[float, int, Ticket]


class FairQueue:
    """Each tenant has a clock of the service it got, in seconds of an endpoint by its weight.

    The gap between two tenants that both wait stays below one request. Who comes back after a pause starts at the
    clock of the least served: idling earns no credit.

    Tickets that have moved on are dropped when they come up, and all of them when they are the most.
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
        heap = self._tenants.get(tenant_id)
        if heap is None:
            self.first()
            heap = self._tenants[tenant_id] = []
            self._set_clock(tenant_id, max(self._clocks.get(tenant_id, 0.0), self._floor))
        heapq.heappush(heap, (ticket.start_by, ticket.number, ticket))
        self._entries += 1
        if self._entries > self._sweep_at:
            self._sweep()

    def first(self) -> Entry | None:
        """The head of the least served tenant, by latest start; None when nothing waits."""
        while self._by_clock:
            clock, tenant_id = self._by_clock[0]
            head = self._head_of(tenant_id, clock)
            if head is not None:
                if clock > self._floor:
                    self._floor = clock
                    self.changes += 1
                return head
            heapq.heappop(self._by_clock)
        return None

    def pop(self) -> Ticket:
        """Removes `first()`, which there must be."""
        self._entries -= 1
        return heapq.heappop(self._tenants[self._by_clock[0][1]])[2]

    def served(self, tenant_id: str, service_s: float) -> None:
        """Charges the tenant for what was sent, over its weight."""
        self._set_clock(tenant_id, self._clocks.get(tenant_id, self._floor) + service_s)
        if len(self._clocks) > MAX_CLOCKS + len(self._tenants):
            self._forget_clocks()

    def served_at_once(self, tenant_id: str, service_s: float) -> None:
        """The same as `push`, `pop` and `served` of a ticket while nobody waits."""
        clock = max(self._clocks.get(tenant_id, 0.0), self._floor)
        self._floor = clock
        self._set_clock(tenant_id, clock + service_s)
        if len(self._clocks) > MAX_CLOCKS + len(self._tenants):
            self._forget_clocks()

    def _set_clock(self, tenant_id: str, clock: float) -> None:
        self.changes += self._clocks.get(tenant_id) != clock
        self._clocks[tenant_id] = clock
        if tenant_id in self._tenants:
            heapq.heappush(self._by_clock, (clock, tenant_id))

    def _head_of(self, tenant_id: str, clock: float) -> Entry | None:
        """None when the clock has moved since, or nothing of the tenant waits any more."""
        heap = self._tenants.get(tenant_id)
        if heap is None or self._clocks[tenant_id] != clock:
            return None
        while heap and not _is_kept(heap[0]):
            heapq.heappop(heap)
            self._entries -= 1
        if heap:
            return heap[0]
        del self._tenants[tenant_id]
        return None

    def _sweep(self) -> None:
        """Tenants of which nothing waits any more go with what was theirs."""
        for tenant_id in list(self._tenants):
            kept = {entry[1]: entry for entry in self._tenants[tenant_id] if _is_kept(entry)}
            if kept:
                heap = self._tenants[tenant_id] = list(kept.values())
                heapq.heapify(heap)
            else:
                del self._tenants[tenant_id]
        self._by_clock = [(self._clocks[tenant_id], tenant_id) for tenant_id in self._tenants]
        heapq.heapify(self._by_clock)
        self._entries = sum(map(len, self._tenants.values()))
        self._sweep_at = max(LEAST_SWEPT, 2 * self._entries)
        if len(self._clocks) > MAX_CLOCKS + len(self._tenants):
            self._forget_clocks()

    def _forget_clocks(self) -> None:
        for tenant_id in [known for known in self._clocks if known not in self._tenants]:
            del self._clocks[tenant_id]


def _is_kept(entry: Entry) -> bool:
    ticket = entry[2]
    return ticket.state is State.KEPT and ticket.number == entry[1]
