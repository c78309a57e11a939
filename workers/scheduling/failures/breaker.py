"""The circuit breaker of one endpoint."""

from collections import deque
from math import inf

from workers.scheduling.endpoint_spec import BreakerState

TRIP_IN_A_ROW = 3
WINDOW = 20
MIN_OUTCOMES = 10
MAX_FAILURE_SHARE = 0.5
MAX_DOUBLINGS = 16
MAX_RETRY_AFTER_S = 300.0
CALM_S = 60.0
"""So long without a failure, and an endpoint's record is clean: one that flaps keeps its long pauses."""


class Breaker:
    """Each failure pauses the endpoint; failures in a row, or a high share of them, open the breaker.

    After a pause work goes there again. After an opening one request goes there as a probe: its first token closes the
    breaker, its failure opens it for twice as long. A pause that the engine itself asked for is no failure, and what
    fails during a pause tells nothing new: an engine that dies fails all it had at once.
    """

    __slots__ = (
        "_asked_until",
        "_failed_at",
        "_in_a_row",
        "_is_open",
        "_outcomes",
        "_pause_s",
        "_probe",
        "_trips",
        "opened_until",
    )

    def __init__(self, first_pause_s: float, max_pause_s: float) -> None:
        self._pause_s = (first_pause_s, max_pause_s)
        self._outcomes: deque[bool] = deque(maxlen=WINDOW)
        self._in_a_row = 0
        self._trips = 0
        self._failed_at = -inf
        self._is_open = False
        self._probe: int | None = None
        self._asked_until = 0.0
        self.opened_until = 0.0

    def opens_at(self) -> float:
        """When the next request may be sent; inf while a probe is out."""
        return inf if self._probe is not None else self.opened_until

    def state(self, now: float) -> BreakerState:
        if self.opened_until > now:
            return "open" if self._is_open else "paused"
        return "half_open" if self._is_open else "closed"

    def sent(self, number: int) -> None:
        if self._is_open:
            self._probe = number

    def withdrawn(self, number: int) -> None:
        """A probe that ended without a verdict: the next request is the probe."""
        if self._probe == number:
            self._probe = None

    def forget_probe(self) -> None:
        """Its endpoint is gone."""
        self._probe = None

    def answered(self, number: int, now: float) -> None:
        """The engine works. Of an open breaker only the probe tells: older requests were sent to another state."""
        if self._is_open:
            if number != self._probe:
                return
            self._is_open, self._probe = False, None
            self._outcomes.clear()
        self._in_a_row = 0
        self._outcomes.append(True)
        self.opened_until = self._asked_until
        if self._failed_at > -inf and now - self._failed_at > CALM_S:
            self._trips, self._failed_at = 0, -inf

    def failed(self, number: int, now: float, retry_after_s: float | None = None) -> None:
        if retry_after_s is not None:
            self.withdrawn(number)
            self._asked_until = now + min(MAX_RETRY_AFTER_S, max(0.0, retry_after_s))
            self.opened_until = max(self.opened_until, self._asked_until)
            return
        was_probe = self._is_open and number == self._probe
        self._outcomes.append(False)
        if now < self.opened_until and not was_probe:
            return
        self._failed_at = now
        self._in_a_row += 1
        if was_probe or (not self._is_open and self._is_bad()):
            self.trip(now)
        else:
            self._pause(now, self._doubled(self._in_a_row - 1))

    def trip(self, now: float) -> None:
        """Opens: nothing goes there until the pause is over, and then a probe."""
        self._is_open, self._probe = True, None
        self._failed_at = now
        self._pause(now, self._doubled(max(self._in_a_row - 1, self._trips)))
        self._trips += 1

    def _pause(self, now: float, seconds: float) -> None:
        self.opened_until = max(self.opened_until, now + seconds)

    def _doubled(self, times: int) -> float:
        first_s, longest_s = self._pause_s
        return min(longest_s, first_s * 2.0 ** min(MAX_DOUBLINGS, times))

    def _is_bad(self) -> bool:
        if self._in_a_row >= TRIP_IN_A_ROW:
            return True
        failures = self._outcomes.count(False)
        return len(self._outcomes) >= MIN_OUTCOMES and failures >= MAX_FAILURE_SHARE * len(self._outcomes)
