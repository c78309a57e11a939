"""Looks now and then whether an engine hangs that has work."""

from math import inf

from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.interface import Command, Suspect
from workers.scheduling.queues import Queues

WATCHES_PER_STALL = 4


class Watch:
    """At each report of an engine, and WATCHES_PER_STALL times in `stall_after_s` while there are requests."""

    def __init__(self, stall_after_s: float, endpoints: dict[str, EndpointModel], queues: Queues) -> None:
        self._stall_after_s = stall_after_s
        self._endpoints = endpoints
        self._queues = queues
        self.due_at = inf

    def begin(self, now: float) -> None:
        if self.due_at == inf:
            self.due_at = now + self._stall_after_s / WATCHES_PER_STALL

    def due(self, now: float) -> list[Command]:
        commands: list[Command] = []
        if now < self.due_at:
            return commands
        for endpoint in self._endpoints.values():
            commands += self.look_at(endpoint, now)
        self.due_at = now + self._stall_after_s / WATCHES_PER_STALL if self._queues.tickets else inf
        return commands

    def look_at(self, endpoint: EndpointModel, now: float) -> list[Command]:
        watchdog = endpoint.watchdog
        if not endpoint.running or watchdog.is_stalled or not watchdog.is_overdue(now, self._stall_after_s):
            return []
        watchdog.is_stalled = True
        endpoint.breaker.trip(now)
        self._queues.pool_of(endpoint.version_id, now).fleet.touch(endpoint, now)
        silent = tuple(ticket.request.request_id for ticket in endpoint.prefilling.values())
        return [Suspect(endpoint.endpoint_id, silent)]
