"""The bid price: below which value density work is not worth starting on, while more comes than can be done."""

from collections import deque
from math import log2

WINDOW_S = 20.0
BUCKETS_PER_OCTAVE = 4
PRICED_LOAD = 0.7
LASTING_RATE = 0.01
"""Per update: at four a second, a mean over some 25 s of the window's load."""


class Demand:
    """The cost of what arrived in the last WINDOW_S; by density on a logarithmic scale once a price was asked for."""

    __slots__ = ("_by_bucket", "_recent", "kv_s", "offered_s")

    def __init__(self) -> None:
        self._recent: deque[tuple[float, float, float, float]] = deque()
        self._by_bucket: dict[int, float] | None = None
        self.offered_s = 0.0
        self.kv_s = 0.0

    def arrived(self, density: float, cost_s: float, now: float, kv_s: float = 0.0) -> None:
        """`kv_s` of the cost is for the KV cache."""
        self._recent.append((now, density, cost_s, kv_s))
        self.offered_s += cost_s
        self.kv_s += kv_s
        if self._by_bucket is not None:
            _add(self._by_bucket, density, cost_s)

    def forget(self, now: float) -> None:
        """Drops what is older than the window."""
        recent, by_bucket = self._recent, self._by_bucket
        oldest = now - WINDOW_S
        while recent and recent[0][0] < oldest:
            _, density, cost_s, kv_s = recent.popleft()
            self.offered_s -= cost_s
            self.kv_s -= kv_s
            if by_bucket is not None:
                _add(by_bucket, density, -cost_s)
        if not recent:
            self._by_bucket = None
            self.offered_s = self.kv_s = 0.0

    def relax(self) -> None:
        """No price is needed for now: arrivals cost less."""
        self._by_bucket = None

    def price(self, room_s: float) -> float:
        """The density at which the densest-first sum fills `room_s`; 0 when everything fits."""
        if self.offered_s <= room_s:
            return 0.0
        by_bucket = self._buckets()
        for bucket in sorted(by_bucket, reverse=True):
            room_s -= by_bucket[bucket]
            if room_s < 0:
                return float(2.0 ** (bucket / BUCKETS_PER_OCTAVE))
        return 0.0

    def _buckets(self) -> dict[int, float]:
        if self._by_bucket is None:
            self._by_bucket = {}
            for _, density, cost_s, _ in self._recent:
                _add(self._by_bucket, density, cost_s)
        return self._by_bucket


def _add(by_bucket: dict[int, float], density: float, cost_s: float) -> None:
    bucket = int(log2(density) * BUCKETS_PER_OCTAVE // 1)
    by_bucket[bucket] = by_bucket.get(bucket, 0.0) + cost_s


class BidPrices:
    """One price for all, or one per tenant at its max-min share of the capacity."""

    def __init__(self, fill: float, *, is_fair: bool) -> None:
        self._fill = fill
        self._is_fair = is_fair
        self._all = Demand()
        self._by_tenant: dict[str, Demand] = {}
        self._weights: dict[str, float] = {}
        self._prices: dict[str, float] = {}
        self.price = 0.0
        self.load = 0.0
        self.lasting_load = 0.0

    def arrived(
        self, tenant_id: str, weight: float, *, density: float, cost_s: float, now: float, kv_s: float = 0.0
    ) -> None:
        self._all.arrived(density, cost_s, now, kv_s)
        if self._is_fair:
            demand = self._by_tenant.get(tenant_id)
            if demand is None:
                demand = self._by_tenant[tenant_id] = Demand()
            demand.arrived(density, cost_s, now)
            self._weights[tenant_id] = weight

    def price_of(self, tenant_id: str) -> float:
        return self._prices.get(tenant_id, 0.0) if self._is_fair else self.price

    def update(self, capacity: float, now: float) -> None:
        """`capacity` is in seconds of work per second, of the steps as of the KV cache.

        What arrives takes of both: there is room until the scarcer one is full, if more comes of the same mixture.
        """
        self._all.forget(now)
        scarcest_s = self._scarcest_s()
        self.load = scarcest_s / (capacity * WINDOW_S)
        mixed = self._all.offered_s / scarcest_s if scarcest_s > 0 else 1.0
        room_s = self._fill * capacity * WINDOW_S * mixed
        self.lasting_load += LASTING_RATE * (self.load - self.lasting_load)
        is_priced = self.load > PRICED_LOAD
        self.price = self._all.price(room_s) if is_priced else 0.0
        if self._is_fair:
            self._forget_tenants(now)
            self._prices = self._share_out(room_s) if self.price else {}
        if not is_priced:
            self._relax()

    def _relax(self) -> None:
        self._all.relax()
        for demand in self._by_tenant.values():
            demand.relax()

    def _scarcest_s(self) -> float:
        """What arrived in the window takes of the steps, or of the KV cache, whichever is more."""
        kv_s = self._all.kv_s
        return max(self._all.offered_s - kv_s, kv_s)

    def _forget_tenants(self, now: float) -> None:
        for tenant_id in list(self._by_tenant):
            demand = self._by_tenant[tenant_id]
            demand.forget(now)
            if not demand.offered_s:
                del self._by_tenant[tenant_id], self._weights[tenant_id]

    def _share_out(self, room_s: float) -> dict[str, float]:
        """Water-filling: who asks for less than a fair share gets all of it, the others share the rest by weight."""
        asking = sorted(
            self._by_tenant, key=lambda tenant_id: self._by_tenant[tenant_id].offered_s / self._weights[tenant_id]
        )
        weight_left = sum(self._weights.values())
        prices: dict[str, float] = {}
        for tenant_id in asking:
            demand, weight = self._by_tenant[tenant_id], self._weights[tenant_id]
            share_s = min(demand.offered_s, room_s * weight / weight_left)
            prices[tenant_id] = demand.price(share_s)
            room_s -= share_s
            weight_left -= weight
        return prices
