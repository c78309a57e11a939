"""How much of an endpoint's KV cache a request may fill."""

from workers.scheduling.planning.price import BidPrices
from workers.scheduling.ticket import Ticket
from workers.scheduling.tuning import Tuning

CALM_LOAD, CROWDED_LOAD = 0.7, 1.0


class KVLimits:
    """The share that may be in use after a request, and how many times its need must be free.

    Work that can wait leaves room for what cannot; under load, large work for small, and what is hardly worth the bid
    price for what is worth more.
    """

    def __init__(self, tuning: Tuning, prices: BidPrices) -> None:
        self._prices = prices
        self._patient_s = tuning.patient_s
        self._ceiling, self._ceiling_patient = tuning.kv_ceiling, tuning.kv_ceiling_patient
        self._reserve, self._headroom = tuning.kv_reserve, tuning.kv_headroom

    def patient_until(self, ticket: Ticket) -> float:
        """Until then the ticket can wait for longer."""
        return ticket.start_by - self._patient_s

    def ceiling(self, ticket: Ticket, now: float) -> float:
        bid_price = self._prices.price
        ceiling = self._ceiling_patient if ticket.start_by - now > self._patient_s else self._ceiling
        return ceiling - self._reserve * min(1.0, bid_price / ticket.density) if bid_price else ceiling

    def headroom(self) -> float:
        load = self._prices.load
        crowding = min(1.0, (load - CALM_LOAD) / (CROWDED_LOAD - CALM_LOAD)) if load > CALM_LOAD else 0.0
        return 1 + (self._headroom - 1) * crowding
