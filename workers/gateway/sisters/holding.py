"""What several processes hold together."""

from collections import Counter
from collections.abc import Iterable

from workers.gateway.sisters.control import Holds


def hold_together(each: Iterable[Holds]) -> Holds:
    all_holds = list(each)
    by_key: Counter[str] = Counter()
    queued: Counter[str] = Counter()
    for holds in all_holds:
        by_key.update(holds.by_key)
        queued.update(holds.queued)
    return Holds(
        connections=sum(holds.connections for holds in all_holds),
        by_key=dict(by_key),
        waiting=sum(holds.waiting for holds in all_holds),
        queued=dict(queued),
        arriving=_added([holds.arriving for holds in all_holds]),
        spent=_added([holds.spent for holds in all_holds]),
    )


def _added(pairs: Iterable[dict[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for by_name in pairs:
        for name, (one, other) in by_name.items():
            known = sums.get(name, (0, 0))
            sums[name] = (known[0] + one, known[1] + other)
    return sums
