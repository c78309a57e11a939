"""Tickets of several tenants: the least served tenant first, by latest start within it."""

import heapq

from workers.scheduling.ticket import State, Ticket

MAX_COMPARED = 16
MAX_CLOCKS = 10_000
Heap = list[tuple[float, int, Ticket]]


class FairQueue:
    """Each tenant has a clock of the service it got, in seconds of an endpoint by its weight.

    Of the tenants no more than `lead_s` ahead of the least served one that waits, at most MAX_COMPARED, the most urgent
    ticket is next; so the gap between two tenants that both wait stays below `lead_s` and one request. Who comes
    back after a pause starts at the clock of the least served: idling earns no credit. Without `is_fair` all tickets
    count as one tenant's.
    """

    def __init__(self, lead_s: float, *, is_fair: bool) -> None:
        self._lead_s = lead_s
        self._is_fair = is_fair
        self._tenants: dict[str, Heap] = {}
        self._clocks: dict[str, float] = {}
        self._by_clock: list[tuple[float, str]] = []
        self._floor = 0.0

    def push(self, ticket: Ticket) -> None:
        tenant_id = self._tenant_of(ticket)
        heap = self._tenants.get(tenant_id)
        if heap is None:
            floor = self._least_clock()
            heap = self._tenants[tenant_id] = []
            self._set_clock(tenant_id, max(self._clocks.get(tenant_id, 0.0), floor))
        heapq.heappush(heap, (ticket.start_by, ticket.number, ticket))

    def pop(self) -> Ticket | None:
        """The next ticket, out of the queue; None when there is none."""
        compared: list[tuple[float, str]] = []
        best: tuple[tuple[float, int, Ticket], str] | None = None
        while self._by_clock and len(compared) < MAX_COMPARED:
            clock, tenant_id = self._by_clock[0]
            if compared and clock > compared[0][0] + self._lead_s:
                break
            heapq.heappop(self._by_clock)
            head = self._head_of(tenant_id, clock)
            if head is not None:
                compared.append((clock, tenant_id))
                if best is None or head < best[0]:
                    best = (head, tenant_id)
        for entry in compared:
            heapq.heappush(self._by_clock, entry)
        if best is None:
            return None
        return heapq.heappop(self._tenants[best[1]])[2]

    def served(self, ticket: Ticket, weight: float) -> None:
        """Charges the tenant for a ticket that was sent."""
        tenant_id = self._tenant_of(ticket)
        clock = self._clocks.get(tenant_id, self._floor)
        self._set_clock(tenant_id, clock + ticket.cost_s / weight)
        if len(self._clocks) > MAX_CLOCKS + len(self._tenants):
            self._forget_clocks()

    def clock_of(self, tenant_id: str) -> float:
        return self._clocks.get(tenant_id, self._floor)

    def _tenant_of(self, ticket: Ticket) -> str:
        return ticket.request.tenant_id if self._is_fair else ""

    def _set_clock(self, tenant_id: str, clock: float) -> None:
        self._clocks[tenant_id] = clock
        if tenant_id in self._tenants:
            heapq.heappush(self._by_clock, (clock, tenant_id))

    def _least_clock(self) -> float:
        """Of the tenants that wait, or of the last that did; it never falls."""
        while self._by_clock and self._head_of(self._by_clock[0][1], self._by_clock[0][0]) is None:
            heapq.heappop(self._by_clock)
        if self._by_clock:
            self._floor = max(self._floor, self._by_clock[0][0])
        return self._floor

    def _head_of(self, tenant_id: str, clock: float) -> tuple[float, int, Ticket] | None:
        """None when the clock has moved since, or nothing of the tenant waits any more."""
        heap = self._tenants.get(tenant_id)
        if heap is None or self._clocks[tenant_id] != clock:
            return None
        while heap and heap[0][2].state is not State.KEPT:
            heapq.heappop(heap)
        if heap:
            return heap[0]
        del self._tenants[tenant_id]
        return None

    def _forget_clocks(self) -> None:
        for tenant_id in [known for known in self._clocks if known not in self._tenants]:
            del self._clocks[tenant_id]
