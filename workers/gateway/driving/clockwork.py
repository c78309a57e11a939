"""Work that comes again and again, by one timer for all of it.

A process that sleeps is woken with cold caches, and so for little work at the price of several requests. What is done
many times a second beside streams is therefore done together.
"""

import logging
from collections.abc import Callable

from workers.gateway.driving.recurring import Timer

logger = logging.getLogger(__name__)

Work = Callable[[], None]


class Clockwork:
    """`call_later` runs a function once, after so many seconds. Periods are whole numbers of beats."""

    def __init__(self, beat_s: float, call_later: Callable[[float, Work], Timer]) -> None:
        self._beat_s = beat_s
        self._call_later = call_later
        self._works: list[tuple[int, int, Work]] = []
        self._beats = 0
        self._timer: Timer | None = None

    def each(self, period_s: float, work: Work) -> None:
        """Works of one period come at different beats, as long as there are enough of them."""
        every = max(1, round(period_s / self._beat_s))
        self._works.append((every, len(self._works) % every, work))

    def start(self) -> None:
        self._timer = self._call_later(self._beat_s, self._beat)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self.start()
        self._beats += 1
        for every, phase, work in self._works:
            if self._beats % every == phase:
                _do(work)


def _do(work: Work) -> None:
    """A failure is logged, and the next time comes all the same."""
    try:
        work()
    except Exception:
        logger.exception("periodic work failed")
