"""Whom a gateway with a queue refuses."""

from msgspec import Struct

from workers.scheduling.interface import Request
from workers.scheduling.peers.orders import deadline_at


class ShedLate(Struct, frozen=True):
    """What is late when its turn has come."""

    def at_arrival(self, request: Request, waiting: int, now: float) -> bool:
        del request, waiting, now
        return False

    def at_dispatch(self, request: Request, waiting: int, now: float) -> bool:
        del waiting
        return now > deadline_at(request)


class ShedDeep(Struct, frozen=True):
    """What comes when the queue is full."""

    max_waiting: int

    def at_arrival(self, request: Request, waiting: int, now: float) -> bool:
        del request, now
        return waiting >= self.max_waiting

    def at_dispatch(self, request: Request, waiting: int, now: float) -> bool:
        del request, waiting, now
        return False


class ShedOld(Struct, frozen=True):
    """What has waited too long."""

    max_age_s: float

    def at_arrival(self, request: Request, waiting: int, now: float) -> bool:
        del request, waiting, now
        return False

    def at_dispatch(self, request: Request, waiting: int, now: float) -> bool:
        del waiting
        return now - request.arrived_at > self.max_age_s


class ShedClass(Struct, frozen=True):
    """What comes when the queue is full, lower classes at a smaller depth."""

    max_waiting: int

    def at_arrival(self, request: Request, waiting: int, now: float) -> bool:
        del now
        return waiting >= self.max_waiting >> request.rank

    def at_dispatch(self, request: Request, waiting: int, now: float) -> bool:
        del request, waiting, now
        return False
