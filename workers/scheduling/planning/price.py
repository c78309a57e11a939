"""The bid price: below which value density work is not worth starting on, while more comes than can be done."""

from math import log2

WINDOW_SLICES = 20
SLICE_S = 1.0
BUCKETS = 160
BUCKETS_PER_OCTAVE = 4
FIRST_OCTAVE = -20.0
FILL = 0.9
"""Share of capacity that may be promised; the rest absorbs what the cost model does not know."""


class BidPrice:
    """Keeps the cost of what arrived in the last WINDOW_SLICES by density, on a logarithmic scale."""

    def __init__(self) -> None:
        self._slices = [[0.0] * BUCKETS for _ in range(WINDOW_SLICES)]
        self._total = [0.0] * BUCKETS
        self._slice = 0
        self._started_at: float | None = None
        self.offered_s = 0.0

    def arrived(self, density: float, cost_s: float, now: float) -> None:
        self._move_to(now)
        bucket = min(BUCKETS - 1, max(0, int((log2(density) - FIRST_OCTAVE) * BUCKETS_PER_OCTAVE)))
        self._slices[self._slice % WINDOW_SLICES][bucket] += cost_s
        self._total[bucket] += cost_s
        self.offered_s += cost_s

    def price(self, capacity: float, now: float) -> float:
        """0 when everything fits. `capacity` is in seconds of work per second."""
        self._move_to(now)
        room_s = FILL * capacity * WINDOW_SLICES * SLICE_S
        if self.offered_s <= room_s:
            return 0.0
        for bucket in range(BUCKETS - 1, -1, -1):
            room_s -= self._total[bucket]
            if room_s < 0:
                return float(2.0 ** (bucket / BUCKETS_PER_OCTAVE + FIRST_OCTAVE))
        return 0.0

    def _move_to(self, now: float) -> None:
        if self._started_at is None:
            self._started_at = now
        current = int((now - self._started_at) / SLICE_S)
        for number in range(max(self._slice + 1, current - WINDOW_SLICES + 1), current + 1):
            self._forget(number % WINDOW_SLICES)
        self._slice = max(self._slice, current)

    def _forget(self, index: int) -> None:
        gone = self._slices[index]
        self._total = [max(0.0, total - old) for total, old in zip(self._total, gone, strict=True)]
        self.offered_s = sum(self._total)
        self._slices[index] = [0.0] * BUCKETS
