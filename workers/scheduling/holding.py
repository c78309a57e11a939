"""Slots that are held back for higher classes."""

from math import ceil, exp, sqrt

from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.planning.price import WINDOW_S
from workers.scheduling.ranks import by_rank
from workers.scheduling.ticket import Ticket
from workers.scheduling.tuning import CLASS_WEIGHTS

DEVIATIONS = 2.0
LEAST_USED = 0.01
SLOTS_PER_SPARE = 8
MOST_SPARE = 4
SHORT_STAY_S = 1.0
LOWEST_RANK = len(CLASS_WEIGHTS) - 1


class HeldSlots:
    """As many as the classes above have lately used at a time, by what arrived of them, and DEVIATIONS more.

    Never more than their share against the class that is kept waiting: it has its own. An engine that runs few
    sequences, all of them long and of a low class, would have none to give for a minute.

    Of the lowest class what stays long leaves one slot in SLOTS_PER_SPARE of the whole fleet, MOST_SPARE at most, to
    classes that have not asked yet: whoever asks first would else wait until one of them ends.
    """

    def __init__(self) -> None:
        self._stays_s: dict[int, float] = {}
        self._noted_at = 0.0
        self._changes = -1
        self._spared: dict[int, bool] = {}

    def arrived(self, rank: int, stay_s: float, now: float) -> None:
        """The stays of what arrived, older ones for less: their sum over WINDOW_S is how many there are at a time."""
        fading = exp(min(0.0, self._noted_at - now) / WINDOW_S)
        for known in self._stays_s:
            self._stays_s[known] *= fading
        self._noted_at = now
        self._stays_s[rank] = self._stays_s.get(rank, 0.0) + stay_s

    def bars(
        self, ticket: Ticket, endpoint: EndpointModel, usable: dict[int, EndpointModel], changes: int, now: float
    ) -> bool:
        """Whether the ticket would take a slot of those above it.

        `usable` are all that may be sent to; as long as `changes` is the same they run what they did.
        """
        rank, free = ticket.request.rank, _free(endpoint)
        is_spared = rank >= LOWEST_RANK and free <= MOST_SPARE and ticket.stay_s > SHORT_STAY_S
        if is_spared and self._takes_spare(usable, changes, rank):
            return True
        held = self._held(rank, endpoint.slots(), len(usable), now)
        return free <= held and free <= held - _above(endpoint, rank)

    def _takes_spare(self, usable: dict[int, EndpointModel], changes: int, rank: int) -> bool:
        """Looked at once for all of a rank that wait."""
        if changes != self._changes:
            self._changes = changes
            self._spared.clear()
        takes_spare = self._spared.get(rank)
        if takes_spare is None:
            takes_spare = self._spared[rank] = _takes_spare(usable, rank)
        return takes_spare

    def _held(self, rank: int, slots: int, endpoints: int, now: float) -> int:
        above_s = sum(stay_s for known, stay_s in self._stays_s.items() if known < rank)
        used = above_s * exp(min(0.0, self._noted_at - now) / WINDOW_S) / (WINDOW_S * max(1, endpoints))
        weight_above = sum(by_rank(CLASS_WEIGHTS, above) for above in self._stays_s if above < rank)
        share = weight_above / (weight_above + by_rank(CLASS_WEIGHTS, rank))
        return min(ceil(used + DEVIATIONS * sqrt(used)) if used > LEAST_USED else 0, int(share * slots))


def _takes_spare(endpoints: dict[int, EndpointModel], rank: int) -> bool:
    """Whether no more is free in the whole fleet than is spared, less what the classes above have of it already."""
    slots = free = 0
    for endpoint in endpoints.values():
        slots += endpoint.slots()
        free += max(0, _free(endpoint))
    spare = min(MOST_SPARE, slots // SLOTS_PER_SPARE)
    return free <= spare and free <= spare - sum(_above(endpoint, rank) for endpoint in endpoints.values())


def _free(endpoint: EndpointModel) -> int:
    return endpoint.slots() - len(endpoint.running)


def _above(endpoint: EndpointModel, rank: int) -> int:
    return sum(other.request.rank < rank for other in endpoint.running.values())
