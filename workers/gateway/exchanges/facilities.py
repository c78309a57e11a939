"""What the exchanges of a gateway share."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from workers.gateway.driving.driver import Driver
from workers.gateway.records.journal import Journal
from workers.gateway.records.metering import Meter

if TYPE_CHECKING:
    from workers.gateway.exchanges.exchange import Exchange


class Facilities:
    """`exchanges` are those that have begun and not ended. `reroute` finds another way for one that waits in vain."""

    __slots__ = ("driver", "exchanges", "journal", "meter", "monotonic", "reroute")

    def __init__(self, driver: Driver, meter: Meter, journal: Journal, monotonic: Callable[[], float]) -> None:
        self.driver = driver
        self.meter = meter
        self.journal = journal
        self.monotonic = monotonic
        self.exchanges: set[Exchange] = set()
        self.reroute: Callable[[Exchange], None] | None = None
