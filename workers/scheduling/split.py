"""Which version of a route a request gets."""

from collections import OrderedDict
from hashlib import blake2b

from workers.contracts.snapshot import RouteTarget

STICKY_IDS_MAX = 100_000


class WeightedSplit:
    """Splits a route's requests by weight, and keeps every sticky id (a session, a user) on one version.

    A request without a sticky id goes to the version that is furthest behind its share, so any run of N requests is
    within one request of the exact split. A new sticky id goes where its hash says, which is the same on every gateway
    and after every restart, unless that would push the split of the ids seen so far more than `tolerance` from its
    target; such exceptions, like all ids seen lately, are remembered (bounded, least recently used goes first).
    """

    def __init__(self, public_name: str, targets: list[RouteTarget], tolerance: float = 0.01) -> None:
        self._targets = [target for target in targets if target.weight > 0]
        self._total_weight = sum(target.weight for target in self._targets)
        self._salt = public_name.encode()
        self._tolerance = tolerance
        self._given = [0] * len(self._targets)
        self._given_sticky = [0] * len(self._targets)
        self._remembered: OrderedDict[str, int] = OrderedDict()

    @property
    def is_split(self) -> bool:
        return len(self._targets) > 1

    def choose(self, sticky_id: str = "") -> str | None:
        """The version id, or None when the route has no target with a weight."""
        if not self._targets:
            return None
        if len(self._targets) == 1:
            return self._targets[0].version_id
        index = self._choose_sticky(sticky_id) if sticky_id else self._furthest_behind(self._given)
        return self._targets[index].version_id

    def _choose_sticky(self, sticky_id: str) -> int:
        index = self._remembered.get(sticky_id)
        if index is not None:
            self._remembered.move_to_end(sticky_id)
            return index
        index = self._by_hash(sticky_id)
        if self._would_overshoot(index):
            index = self._furthest_behind(self._given_sticky)
        else:
            self._given_sticky[index] += 1
        self._remember(sticky_id, index)
        return index

    def _furthest_behind(self, given: list[int]) -> int:
        count = sum(given) + 1
        deficits = [self._share(i) * count - given[i] for i in range(len(given))]
        index = deficits.index(max(deficits))
        given[index] += 1
        return index

    def _would_overshoot(self, index: int) -> bool:
        count = sum(self._given_sticky) + 1
        excess = self._given_sticky[index] + 1 - self._share(index) * count
        return excess > 1 + self._tolerance * count

    def _by_hash(self, sticky_id: str) -> int:
        digest = blake2b(sticky_id.encode(), digest_size=8, key=self._salt[:64]).digest()
        point = int.from_bytes(digest, "big") / 2**64 * self._total_weight
        for index, target in enumerate(self._targets):
            point -= target.weight
            if point < 0:
                return index
        return len(self._targets) - 1

    def _share(self, index: int) -> float:
        return self._targets[index].weight / self._total_weight

    def _remember(self, sticky_id: str, index: int) -> None:
        self._remembered[sticky_id] = index
        if len(self._remembered) > STICKY_IDS_MAX:
            self._remembered.popitem(last=False)
