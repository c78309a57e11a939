"""Waiting work by deadline, in a segment tree that knows the worst overload of any prefix."""

import heapq
from collections.abc import Iterable
from math import inf

from workers.scheduling.planning.backlog import Backlog
from workers.scheduling.ticket import Ticket

DEPTH = 12
SLOTS = 4096
"""2 to the power of DEPTH, written out so that the compiler knows it."""
SLOT_S = 0.01
HALF_S = 20.48
"""Half of the slots, in seconds: written out as well."""


class DeadlineSlots:
    """Each slot is SLOT_S of time and holds the work due in it.

    Each node of the tree knows its range's work minus capacity, the largest such sum of any of its prefixes, and the
    least density of any ticket in it.

    What is due beyond the last slot lies in the last one. `advance` moves the first slot as time passes.
    """

    def __init__(self, capacity: float, now: float) -> None:
        self.work_s = 0.0
        self._tickets: dict[int, Ticket] = {}
        self.rebase(capacity, now)

    def __len__(self) -> int:
        return len(self._tickets)

    def rebase(self, capacity: float, now: float) -> None:
        """Starts over at `now` with a fleet that does `capacity` seconds of work a second."""
        self.capacity = capacity
        self._start = now
        self._heaps: dict[int, list[tuple[float, int, Ticket]]] = {}
        self._sum = [0.0]
        for depth in range(DEPTH + 1):
            self._sum += [-capacity * SLOT_S * (SLOTS >> depth)] * (1 << depth)
        self._prefix = [-inf] * (2 * SLOTS)
        self._least = [inf] * (2 * SLOTS)
        for ticket in self._tickets.values():
            self._put(ticket)
        for slot in self._heaps:
            self._load_leaf(slot)
        self._pull_above(self._heaps)

    def advance(self, now: float) -> None:
        """Starts over when half of the slots lie in the past."""
        if now - self._start > HALF_S:
            self.rebase(self.capacity, now)

    def add(self, ticket: Ticket) -> None:
        self._tickets[ticket.number] = ticket
        self.work_s += ticket.prefill_s
        self._put(ticket)
        self._update(ticket.slot)

    def remove(self, ticket: Ticket) -> None:
        del self._tickets[ticket.number]
        self.work_s -= ticket.prefill_s
        self._sum[ticket.slot + SLOTS] -= ticket.prefill_s
        self._update(ticket.slot)

    def overloaded_by(self, now: float, backlog: Backlog, allowed_s: float) -> Ticket | None:
        """Of a stretch from now that exceeds what the fleet can do by its end, the ticket of least density.

        None when no stretch does by more than `allowed_s`. An engine's backlog takes of a stretch no more than its
        length: one that is busy for long leaves the others to the urgent.
        """
        level = self.capacity * (now - self._start) - allowed_s
        if not self._tickets or self._prefix[1] + level + backlog.total_s <= 0:
            return None
        for begin_s, end_s, busy_s in backlog.stretches():
            first, last = self._slot_at(now + begin_s), self._slot_at(now + end_s)
            slot = self._first_above(-level - busy_s, first, last)
            if slot is not None:
                return self._least_dense_until(slot)
        return None

    def is_overloaded_with(self, ticket: Ticket, now: float, backlog: Backlog, allowed_s: float) -> bool:
        """Whether `overloaded_by` might find something if it were the only one here."""
        ends_at = self._start + SLOT_S * (self._slot_at(ticket.finish_by) + 1)
        return ticket.prefill_s + backlog.total_s - self.capacity * (ends_at - now) > allowed_s

    def _slot_at(self, at: float) -> int:
        place = (at - self._start) / SLOT_S
        if not place > 0.0:
            return 0
        return SLOTS - 1 if place >= SLOTS - 1 else int(place)

    def _put(self, ticket: Ticket) -> None:
        ticket.slot = self._slot_at(ticket.finish_by)
        heapq.heappush(self._heaps.setdefault(ticket.slot, []), (ticket.density * ticket.guard, ticket.number, ticket))
        self._sum[ticket.slot + SLOTS] += ticket.prefill_s

    def _load_leaf(self, slot: int) -> None:
        """An empty slot has no prefix of interest: nothing is due at its end."""
        least = self._least_in(slot)
        self._least[slot + SLOTS] = least
        self._prefix[slot + SLOTS] = self._sum[slot + SLOTS] if least < inf else -inf

    def _update(self, slot: int) -> None:
        self._load_leaf(slot)
        sums, prefixes, leasts = self._sum, self._prefix, self._least
        node = slot + SLOTS
        work_s, prefix_s, least = sums[node], prefixes[node], leasts[node]
        while node > 1:
            if node & 1:
                left_s = sums[node - 1]
                prefix_s = max(prefixes[node - 1], left_s + prefix_s)
                work_s = left_s + work_s
                least = min(leasts[node - 1], least)
            else:
                prefix_s = max(prefix_s, work_s + prefixes[node + 1])
                work_s += sums[node + 1]
                least = min(leasts[node + 1], least)
            node >>= 1
            sums[node], prefixes[node], leasts[node] = work_s, prefix_s, least

    def _pull_above(self, slots: Iterable[int]) -> None:
        """All nodes that have one of these below them, from the leaves to the root."""
        sums, prefixes, leasts = self._sum, self._prefix, self._least
        nodes = {(slot + SLOTS) >> 1: None for slot in slots}
        while nodes:
            for node in nodes:
                left, right = 2 * node, 2 * node + 1
                sums[node] = sums[left] + sums[right]
                prefixes[node] = max(prefixes[left], sums[left] + prefixes[right])
                leasts[node] = min(leasts[left], leasts[right])
            nodes = {node >> 1: None for node in nodes if node > 1}

    def _least_in(self, slot: int) -> float:
        heap = self._heaps.get(slot)
        while heap and (heap[0][1] not in self._tickets or heap[0][2].slot != slot):
            heapq.heappop(heap)
        return heap[0][0] if heap else inf

    def _first_above(self, bound: float, first: int, last: int) -> int | None:
        """The first slot from `first` to `last` whose prefix sum exceeds `bound`.

        From the leaf of `first` to ever larger ranges on its right, until one has such a slot, and down to it.
        """
        sums, prefixes = self._sum, self._prefix
        node = first + SLOTS
        before = self._sum_before(node)
        while before + prefixes[node] <= bound:
            before += sums[node]
            while node & 1:
                node >>= 1
            if not node:
                return None
            node += 1
        while node < SLOTS:
            node *= 2
            if before + prefixes[node] <= bound:
                before += sums[node]
                node += 1
        slot = node - SLOTS
        return slot if slot <= last else None

    def _sum_before(self, node: int) -> float:
        before = 0.0
        while node > 1:
            if node & 1:
                before += self._sum[node - 1]
            node >>= 1
        return before

    def _least_dense_until(self, slot: int) -> Ticket:
        """Walks from the leaf to the root, then down to the least of the subtrees passed on the left."""
        node = best = slot + SLOTS
        while node > 1:
            if node & 1 and self._least[node - 1] < self._least[best]:
                best = node - 1
            node >>= 1
        while best < SLOTS:
            best = 2 * best if self._least[2 * best] <= self._least[2 * best + 1] else 2 * best + 1
        return self._heaps[best - SLOTS][0][2]
