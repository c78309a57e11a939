"""The peers' policies by name; knobs that their users tune per deployment are part of the name."""

from collections.abc import Callable
from random import Random

from workers.scheduling.peers import pickers
from workers.scheduling.peers.gates import OutstandingCap, Saturation
from workers.scheduling.peers.orders import EarliestDeadline, FirstCome, ShortestFirst, StrictPriority, TokenClock
from workers.scheduling.peers.router import Gate, Order, Picker, Router, Shed
from workers.scheduling.peers.sheds import ShedClass, ShedDeep, ShedLate, ShedOld

Build = Callable[[int, Random], Router]

_PICKERS: dict[str, Callable[[Random], Picker]] = {
    "round-robin": lambda _: pickers.RoundRobin(),
    "random": pickers.RandomChoice,
    "least-outstanding": lambda _: pickers.LeastOutstanding(),
    "power-of-two": pickers.PowerOfTwo,
    "cache-aware": lambda _: pickers.CacheAware(pickers.CacheAwareConfig()),
    "prefix-aware": lambda _: pickers.PrefixAware(),
    "prefix-load": lambda _: pickers.WeightedScores(pickers.WeightedScoresConfig()),
    "kv-cost": lambda _: pickers.KVCost(),
}
_ORDERS: dict[str, Callable[[], Order]] = {
    "fcfs": FirstCome,
    "priority": StrictPriority,
    "vtc": TokenClock,
    "edf": EarliestDeadline,
    "sjf": ShortestFirst,
}
_SHEDS: dict[str, Callable[[], Shed]] = {
    "late": ShedLate,
    "deep": lambda: ShedDeep(200),
    "old": lambda: ShedOld(10.0),
    "class": lambda: ShedClass(400),
}
CAPS = (8, 16, 32, 64, 128)


def build_peer(name: str, kv_capacity_tokens: int, rng: Random) -> Router:
    """`picker`, or `picker+gate+order[+shed]` where the gate is a cap or `saturation`: `kv-cost+16+edf+late`.

    `picker+engine` leaves the order to the engines, which are told each request's class as its priority.

    Raises KeyError for a part that is not known.
    """
    picker, *queueing = name.split("+")
    gate: Gate | None = None
    order: Order | None = None
    shed: Shed | None = None
    is_ordered_by_engine = queueing == ["engine"]
    if queueing and not is_ordered_by_engine:
        gate = Saturation() if queueing[0] == "saturation" else OutstandingCap(int(queueing[0]))
        order = _ORDERS[queueing[1]]()
        shed = _SHEDS[queueing[2]]() if len(queueing) > 2 else None  # noqa: PLR2004
    router = Router(_PICKERS[picker](rng), kv_capacity_tokens=kv_capacity_tokens, gate=gate, order=order, shed=shed)
    router.uses_engine_priorities = is_ordered_by_engine
    return router
