"""Tickets of several tenants: by latest start, as long as no tenant gets too far ahead of another that waits."""

import heapq

from workers.scheduling.ticket import State, Ticket

MAX_IDLE_CLOCKS = 10_000


class FairQueue:
    """Each tenant has a clock of the service it got, in seconds of an endpoint by its weight.

    A tenant whose clock is more than `lead_s` ahead of the least served one that waits is passed over, so the gap
    between two tenants that both wait stays below `lead_s` and one request. Who comes back after a pause starts at
    the clock of the least served: idling earns no credit. `lead_s` infinite is plain order by latest start.
    """

    def __init__(self, lead_s: float) -> None:
        self._lead_s = lead_s
        self._tenants: dict[str, list[tuple[float, int, Ticket]]] = {}
        self._clocks: dict[str, float] = {}
        self._by_head: list[tuple[float, int, str]] = []
        self._by_clock: list[tuple[float, str]] = []
        self._floor = 0.0

    def push(self, ticket: Ticket) -> None:
        tenant_id = ticket.request.tenant_id
        heap = self._tenants.get(tenant_id)
        if heap is None:
            heap = self._tenants[tenant_id] = []
            self._rise(tenant_id)
        item = (ticket.start_by, ticket.number, ticket)
        heapq.heappush(heap, item)
        if heap[0] is item:
            heapq.heappush(self._by_head, (ticket.start_by, ticket.number, tenant_id))

    def pop(self) -> Ticket | None:
        """The next ticket, out of the queue; None when there is none."""
        passed: list[tuple[float, int, str]] = []
        found = None
        while found is None and self._by_head:
            entry = heapq.heappop(self._by_head)
            if self._head_of(entry) is None:
                continue
            if self._clocks[entry[2]] <= self._least_clock() + self._lead_s:
                found = self._take(entry[2])
            else:
                passed.append(entry)
        for entry in passed:
            heapq.heappush(self._by_head, entry)
        return found

    def served(self, ticket: Ticket, weight: float) -> None:
        """Charges the tenant for a ticket that was sent."""
        tenant_id = ticket.request.tenant_id
        if tenant_id not in self._clocks:
            self._rise(tenant_id)
        self._clocks[tenant_id] += ticket.cost_s / weight
        heapq.heappush(self._by_clock, (self._clocks[tenant_id], tenant_id))

    def clock_of(self, tenant_id: str) -> float:
        return self._clocks.get(tenant_id, self._floor)

    def _take(self, tenant_id: str) -> Ticket:
        heap = self._tenants[tenant_id]
        ticket = heapq.heappop(heap)[2]
        self._after_change(tenant_id, heap)
        return ticket

    def _head_of(self, entry: tuple[float, int, str]) -> Ticket | None:
        """The ticket that an entry of the heads stands for; None when the entry is out of date."""
        heap = self._tenants.get(entry[2])
        while heap and heap[0][2].state is not State.KEPT:
            heapq.heappop(heap)
            self._after_change(entry[2], heap)
        if not heap or heap[0][1] != entry[1]:
            return None
        return heap[0][2]

    def _after_change(self, tenant_id: str, heap: list[tuple[float, int, Ticket]]) -> None:
        if heap:
            heapq.heappush(self._by_head, (heap[0][0], heap[0][1], tenant_id))
        else:
            del self._tenants[tenant_id]
            self._forget_clocks()

    def _rise(self, tenant_id: str) -> None:
        self._clocks[tenant_id] = max(self._clocks.get(tenant_id, 0.0), self._least_clock())
        heapq.heappush(self._by_clock, (self._clocks[tenant_id], tenant_id))

    def _least_clock(self) -> float:
        """Of the tenants that wait; it never falls."""
        while self._by_clock:
            clock, tenant_id = self._by_clock[0]
            if tenant_id in self._tenants and self._clocks[tenant_id] == clock:
                self._floor = max(self._floor, clock)
                break
            heapq.heappop(self._by_clock)
        return self._floor

    def _forget_clocks(self) -> None:
        if len(self._clocks) > MAX_IDLE_CLOCKS + len(self._tenants):
            for tenant_id in [known for known in self._clocks if known not in self._tenants]:
                del self._clocks[tenant_id]
