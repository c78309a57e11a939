"""Prefill that the engines have still to do, as it takes from what a fleet can do by some time."""

from collections.abc import Iterator
from math import inf

from workers.scheduling.endpoint import EndpointModel

FIRST_S, STEP = 0.25, 1.5


class Backlog:
    """Seconds of prefill ahead in each engine."""

    __slots__ = ("ahead_s", "total_s")

    def __init__(self, endpoints: dict[int, EndpointModel], now: float) -> None:
        self.ahead_s: list[float] = []
        self.total_s = 0.0
        for endpoint in endpoints.values():
            if endpoint.prefill_until > now:
                self.ahead_s.append(endpoint.prefill_until - now)
        if len(self.ahead_s) > 1:
            self.ahead_s.sort()
        for ahead_s in self.ahead_s:
            self.total_s += ahead_s

    def taken_s(self, until_s: float) -> float:
        """Of what the engines could do in the next `until_s`."""
        taken = 0.0
        for number, ahead_s in enumerate(self.ahead_s):
            if ahead_s >= until_s:
                return taken + until_s * (len(self.ahead_s) - number)
            taken += ahead_s
        return taken

    def stretches(self) -> Iterator[tuple[float, float, float]]:
        """From, until, and what is taken by then at least: from short ones to all time."""
        longest_s = self.ahead_s[-1] if self.ahead_s else 0.0
        begin_s, end_s = 0.0, FIRST_S
        while end_s < longest_s:
            yield begin_s, end_s, self.taken_s(begin_s)
            begin_s, end_s = end_s, end_s * STEP
        yield begin_s, inf, self.taken_s(begin_s) if begin_s < longest_s else self.total_s
