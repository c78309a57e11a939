"""The bid price: below which value density work is not worth starting on, while more comes than can be done."""

from bisect import bisect_left
from collections import deque
from math import inf, log2

from workers.scheduling.planning.shares import dominant_shares

WINDOW_S = 20.0
PRICE_EVERY_S = 0.25
BUCKETS_PER_OCTAVE = 32
"""Two per cent of density each: of much that is nearly alike a wide one would let in all or nothing."""
ROUNDING = 1e-6
"""A price is the least of its bucket, and lies in it."""
PRICED_LOAD = 0.7
SMALL_SHARE = 0.5
SHARING_S_PER_TENANT = 2.5e-4
"""From one sharing out to the next: among a thousand tenants as often as the load is looked at, among more seldom."""
LASTING_RATE = 0.01
"""Per update: at four a second, a mean over some 25 s of the window's load."""


class Demand:
    """What arrived in the last WINDOW_S takes of the steps and of the KV cache, in seconds of all of either.

    By density on a logarithmic scale once a price was asked for.
    """

    __slots__ = ("_buckets", "_is_sorted", "_kv_by_bucket", "_recent", "_steps_by_bucket", "kv_s", "steps_s")

    def __init__(self) -> None:
        self._recent: deque[tuple[float, float, float, float]] = deque()
        self._is_sorted = False
        self._buckets: list[int] = []
        self._steps_by_bucket: list[float] = []
        self._kv_by_bucket: list[float] = []
        self.steps_s = 0.0
        self.kv_s = 0.0

    def arrived(self, density: float, steps_s: float, kv_s: float, now: float) -> None:
        self._recent.append((now, density, steps_s, kv_s))
        self._count(density, steps_s, kv_s)

    def forget(self, now: float) -> None:
        """Drops what is older than the window."""
        recent = self._recent
        oldest = now - WINDOW_S
        while recent and recent[0][0] < oldest:
            _, density, steps_s, kv_s = recent.popleft()
            self._count(density, -steps_s, -kv_s)
        if not recent:
            self._is_sorted = False
            self.steps_s = self.kv_s = 0.0

    def relax(self) -> None:
        """No price is needed for now: arrivals cost less."""
        self._is_sorted = False

    def price(self, room_s: float, *, of_kv: bool) -> float:
        """The density at which the densest-first sum fills `room_s` of the steps or of the KV cache; 0: all fits.

        It is the least of its bucket: requests that are alike are let in together, and what then fits is the plan's to
        say.
        """
        if (self.kv_s if of_kv else self.steps_s) <= room_s:
            return 0.0
        if not self._is_sorted:
            self._sort_recent()
        by_bucket = self._kv_by_bucket if of_kv else self._steps_by_bucket
        for place in range(len(by_bucket) - 1, -1, -1):
            room_s -= by_bucket[place]
            if room_s < 0:
                return float(2.0 ** (self._buckets[place] / BUCKETS_PER_OCTAVE))
        return 0.0

    def taken(self, price: float, room_s: float) -> tuple[float, float]:
        """Of the steps and of the KV cache by what is at least as dense as the price, as shares of `room_s`."""
        if not price:
            return self.steps_s / room_s, self.kv_s / room_s
        steps_s = kv_s = 0.0
        for place in range(bisect_left(self._buckets, _bucket_of(price)), len(self._buckets)):
            steps_s += self._steps_by_bucket[place]
            kv_s += self._kv_by_bucket[place]
        return steps_s / room_s, kv_s / room_s

    def _count(self, density: float, steps_s: float, kv_s: float) -> None:
        self.steps_s += steps_s
        self.kv_s += kv_s
        if self._is_sorted:
            self._add(density, steps_s, kv_s)

    def _sort_recent(self) -> None:
        self._is_sorted = True
        self._buckets, self._steps_by_bucket, self._kv_by_bucket = [], [], []
        for _, density, steps_s, kv_s in self._recent:
            self._add(density, steps_s, kv_s)

    def _add(self, density: float, steps_s: float, kv_s: float) -> None:
        bucket = _bucket_of(density)
        place = bisect_left(self._buckets, bucket)
        if place == len(self._buckets) or self._buckets[place] != bucket:
            self._buckets.insert(place, bucket)
            self._steps_by_bucket.insert(place, 0.0)
            self._kv_by_bucket.insert(place, 0.0)
        self._steps_by_bucket[place] += steps_s
        self._kv_by_bucket[place] += kv_s


def _bucket_of(density: float) -> int:
    return int((log2(density) * BUCKETS_PER_OCTAVE + ROUNDING) // 1)


class BidPrices:
    """One price for all, or one per tenant at its max-min share of the capacity.

    `load` is what arrived in the last WINDOW_S over what can be done, `timely_load` that of it which could be in time
    if nobody else asked.
    """

    def __init__(self, fill: float, *, is_fair: bool) -> None:
        self._fill = fill
        self._is_fair = is_fair
        self._all = Demand()
        self._in_vain = Demand()
        self._by_tenant: dict[str, Demand] = {}
        self._weights: dict[str, float] = {}
        self._weight_of_all = 0.0
        self._prices: dict[str, float] = {}
        self._share_at = -inf
        self._is_relaxed = True
        self.price = 0.0
        self.load = 0.0
        self.timely_load = 0.0
        self.lasting_load = 0.0

    def arrived(
        self, tenant_id: str, weight: float, *, density: float, steps_s: float, kv_s: float, now: float
    ) -> None:
        self._all.arrived(density, steps_s, kv_s, now)
        if self._is_fair:
            demand = self._by_tenant.get(tenant_id)
            if demand is None:
                demand = self._by_tenant[tenant_id] = Demand()
            demand.arrived(density, steps_s, kv_s, now)
            self._weight_of_all += weight - self._weights.get(tenant_id, 0.0)
            self._weights[tenant_id] = weight

    def note_in_vain(self, density: float, steps_s: float, kv_s: float, now: float) -> None:
        """Of what arrived: it could not be in time on an idle fleet."""
        self._in_vain.arrived(density, steps_s, kv_s, now)

    def price_of(self, tenant_id: str) -> float:
        return self._prices.get(tenant_id, 0.0) if self._is_fair else self.price

    def is_within_share(self, tenant_id: str) -> bool:
        """Whether others ask for more than their share of what is scarce, and this one does not.

        A flood is there before the window shows that anything is scarce: until then, whether it asks for less than
        SMALL_SHARE of an even one.
        """
        if self.price:
            return self._is_fair and not self._prices.get(tenant_id)
        demand = self._by_tenant.get(tenant_id)
        if demand is None:
            return False
        even_s = self._all.steps_s * self._weights[tenant_id] / self._weight_of_all
        return demand.steps_s < SMALL_SHARE * even_s

    def update(self, capacity: float, now: float) -> None:
        """`capacity` is in seconds of work per second, of the steps as of the KV cache.

        The densest take of both; the scarce one is that which they fill first.
        """
        self._all.forget(now)
        self._in_vain.forget(now)
        self._set_loads(capacity * WINDOW_S)
        is_due = now >= self._share_at
        if is_due:
            self._forget_tenants(now)
            self._share_at = now + SHARING_S_PER_TENANT * len(self._by_tenant)
        if self.load <= PRICED_LOAD:
            self._relax()
        elif is_due:
            self._set_prices(self._fill * capacity * WINDOW_S)

    def _set_loads(self, room_s: float) -> None:
        asked, in_vain = self._all, self._in_vain
        self.load = max(asked.steps_s, asked.kv_s) / room_s
        self.timely_load = max(asked.steps_s - in_vain.steps_s, asked.kv_s - in_vain.kv_s) / room_s
        self.lasting_load += LASTING_RATE * (self.load - self.lasting_load)

    def _set_prices(self, room_s: float) -> None:
        self._is_relaxed = False
        steps_price, kv_price = self._all.price(room_s, of_kv=False), self._all.price(room_s, of_kv=True)
        self.price = max(steps_price, kv_price)
        if not self._is_fair or not self.price:
            self._prices = {}
        elif len(self._by_tenant) == 1:
            self._prices = dict.fromkeys(self._by_tenant, self.price)
        elif steps_price and kv_price:
            self._prices = self._share_out_both(room_s)
        else:
            self._prices = self._share_out(room_s, of_kv=kv_price > steps_price)

    def _relax(self) -> None:
        if self._is_relaxed:
            return
        self._is_relaxed = True
        self.price = 0.0
        self._prices = {}
        self._all.relax()
        for demand in self._by_tenant.values():
            demand.relax()

    def _forget_tenants(self, now: float) -> None:
        for tenant_id in list(self._by_tenant):
            demand = self._by_tenant[tenant_id]
            demand.forget(now)
            if not demand.steps_s:
                del self._by_tenant[tenant_id], self._weights[tenant_id]
        self._weight_of_all = sum(self._weights.values())

    def _share_out(self, room_s: float, *, of_kv: bool) -> dict[str, float]:
        """Water-filling of the scarce one: who asks for less than a fair share gets all, the others by weight."""
        asked_s = {tenant_id: demand.kv_s if of_kv else demand.steps_s for tenant_id, demand in self._by_tenant.items()}
        weight_left = sum(self._weights.values())
        prices: dict[str, float] = {}
        for tenant_id in sorted(asked_s, key=lambda tenant_id: asked_s[tenant_id] / self._weights[tenant_id]):
            demand, weight = self._by_tenant[tenant_id], self._weights[tenant_id]
            share_s = min(asked_s[tenant_id], room_s * weight / weight_left)
            prices[tenant_id] = demand.price(share_s, of_kv=of_kv)
            room_s -= share_s
            weight_left -= weight
        return prices

    def _share_out_both(self, room_s: float) -> dict[str, float]:
        """Where both are scarce each gets as much of that of which it asks most.

        It asks for no more than it would have alone: what it would never be sent takes nothing from the others.
        """
        alone = {
            name: max(demand.price(room_s, of_kv=False), demand.price(room_s, of_kv=True))
            for name, demand in self._by_tenant.items()
        }
        asked = {name: demand.taken(alone[name], room_s) for name, demand in self._by_tenant.items()}
        prices: dict[str, float] = {}
        for name, share in dominant_shares(asked, self._weights).items():
            steps, kv = asked[name]
            within = self._by_tenant[name].price(share * max(steps, kv) * room_s, of_kv=kv > steps) if share < 1 else 0
            prices[name] = max(alone[name], within)
        return prices
