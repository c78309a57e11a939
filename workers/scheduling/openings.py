"""Which endpoints take a request now, and when the others will by themselves."""

import heapq
from math import inf

from workers.scheduling.endpoint import EndpointModel


class Openings:
    """Open endpoints in order of when they were last sent something; the others in a heap by when they open.

    `unusable` are those that are sent nothing whatever they have to do; `usable` all others.
    """

    def __init__(self, gate_share: float) -> None:
        self._gate_share = gate_share
        self.open: dict[int, EndpointModel] = {}
        self.usable: dict[int, EndpointModel] = {}
        self.unusable: dict[int, EndpointModel] = {}
        self._opening: list[tuple[float, int, int]] = []

    def place(self, endpoint: EndpointModel, now: float) -> None:
        opens_at = endpoint.opens_at = self._opens_at(endpoint)
        endpoint.version += 1
        to, of = (self.usable, self.unusable) if endpoint.is_usable(now) else (self.unusable, self.usable)
        to[endpoint.number] = endpoint
        of.pop(endpoint.number, None)
        endpoint.is_open = opens_at <= now
        if endpoint.is_open:
            self.open[endpoint.number] = endpoint
            return
        self.open.pop(endpoint.number, None)
        if opens_at < inf:
            heapq.heappush(self._opening, (opens_at, endpoint.number, endpoint.version))

    def remove(self, endpoint: EndpointModel) -> None:
        endpoint.is_open = False
        for places in (self.open, self.usable, self.unusable):
            places.pop(endpoint.number, None)

    def next_due(self, endpoints: dict[int, EndpointModel], now: float) -> EndpointModel | None:
        """One of those that opens by now; whoever asks places it."""
        while self._opening and self._opening[0][0] <= now:
            _, number, version = heapq.heappop(self._opening)
            endpoint = endpoints.get(number)
            if endpoint is not None and endpoint.version == version:
                return endpoint
        return None

    def next_at(self) -> float:
        return self._opening[0][0] if self._opening else inf

    def _opens_at(self, endpoint: EndpointModel) -> float:
        if endpoint.is_draining or not endpoint.has_slot():
            return inf
        gate_s = self._gate_share * endpoint.max_batched_tokens * endpoint.prefill_s_per_token
        # One after the other: `max` of four is a call of a builtin, on each send and each end.
        opens_at = max(endpoint.breaker.opens_at(), endpoint.ready_at)
        opens_at = max(opens_at, endpoint.paused_until)
        return max(opens_at, endpoint.prefill_until - gate_s)


def why_unusable(endpoint: EndpointModel, now: float) -> str:
    if endpoint.is_draining:
        return "draining"
    if endpoint.ready_at > now:
        return endpoint.warmth
    if endpoint.watchdog.is_stalled:
        return "stalled"
    return f"breaker {endpoint.breaker.state(now)}"
