"""Why nothing that waits could be sent, and how long that stays so: until then nothing needs to be tried again."""

from math import inf

from workers.scheduling.endpoint import EndpointModel

ROUNDING_TOKENS = 1.0


class Standstill:
    """What was found when nothing could be sent. It holds as long as looking again would find the same.

    That is until an event changes a ticket or an endpoint, until a time that a verdict depended on, or until an engine
    reports more room in its KV cache than one of the tickets looked at lacked.
    """

    __slots__ = ("_lacking", "_seen", "_stamp", "_until")

    def __init__(self) -> None:
        self._stamp = -1
        self._until = -inf
        self._seen = 0.0
        self._lacking: list[EndpointModel] = []

    def look(self, until: float) -> None:
        """Tickets are looked at anew."""
        self._stamp = -1
        self._until = until
        for endpoint in self._lacking:
            endpoint.room_at_tokens = -inf
        self._lacking.clear()

    def looked_at(self, count: float) -> None:
        """So many of them, from the first; inf: there were no more."""
        self._seen = count

    def lacks_room(self, endpoint: EndpointModel, room_at_tokens: float) -> None:
        """A ticket would fit there once no more than that is in use."""
        if endpoint.room_at_tokens == -inf:
            self._lacking.append(endpoint)
        endpoint.room_at_tokens = max(room_at_tokens, endpoint.room_at_tokens)

    def ends_at(self, at: float) -> None:
        """A verdict may be another from then on."""
        self._until = min(self._until, at)

    def found(self, stamp: int) -> None:
        """Nothing could be sent; `stamp` changes with every event."""
        self._stamp = stamp

    def seen(self, stamp: int, now: float) -> float:
        """Of how many tickets, from the first, it holds."""
        if stamp != self._stamp or now >= self._until:
            return 0.0
        for endpoint in self._lacking:
            if endpoint.kv_used(now) <= endpoint.room_at_tokens + ROUNDING_TOKENS:
                return 0.0
        return self._seen
