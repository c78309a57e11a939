"""Whether an engine that has work does any: its /health may say so and be wrong."""

from math import inf

from workers.scheduling.interface import EngineReport

BLIND_FACTOR = 10.0
"""Without an engine's counters, silence is judged by the answers alone, and those may come whole after minutes."""

QUIET_S = 2.0
"""An engine whose counters stand still for so long is given nothing more: in a step it could not begin it, anyway."""


class Watchdog:
    """Progress is a token that came out of the engine, an answer that ended, or a counter of the engine that grew.

    A busy engine's counters grow with every step, however long its prompts are. So one whose counters stand still for
    `stall_after_s` while it has requests of ours is stalled; without word of them it takes BLIND_FACTOR times as long.
    `heard_at` is when something last came of our requests, whatever the engine says of itself.
    """

    __slots__ = ("_counted_at", "_counters", "_progressed_at", "heard_at", "is_stalled")

    def __init__(self) -> None:
        self.is_stalled = False
        self.heard_at = -inf
        self._progressed_at = -inf
        self._counters: tuple[float | None, float | None] = (None, None)
        self._counted_at = -inf

    def progressed(self, now: float) -> None:
        """Something came of a request of ours."""
        self.heard_at = now
        self.began(now)

    def began(self, now: float) -> None:
        """Work after a pause, or a probe: what was before tells nothing."""
        self._progressed_at = now
        self.is_stalled = False

    def reported(self, report: EngineReport) -> None:
        """Newer than the one before. A counter that fell belongs to an engine that was restarted: a change, too."""
        counters = (report.steps_total, report.tokens_total)
        if counters[0] is None and counters[1] is None:
            return
        if counters != self._counters:
            if self._counters != (None, None):
                self.began(max(self._progressed_at, report.taken_at))
            self._counters = counters
        self._counted_at = report.taken_at

    def is_quiet(self) -> bool:
        """By its own word; of one that has none nothing is said before it is overdue."""
        return self._counted_at - self._progressed_at >= QUIET_S

    def silent_s(self, now: float) -> float:
        return now - self._progressed_at

    def is_overdue(self, now: float, stall_after_s: float) -> bool:
        counted_still_s = self._counted_at - self._progressed_at
        return counted_still_s >= stall_after_s or now - self._progressed_at >= BLIND_FACTOR * stall_after_s
