"""What engines say of themselves: taken on a grid of time, and old by the time it arrives."""

from collections import deque
from math import inf

from workers.scheduling.interface import EngineReport
from workers.simulator.engine import Engine


class Gauge:
    """One engine's readings. Before the engine changes, `keep` what was true until then."""

    __slots__ = ("_kept", "engine", "told_at")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.told_at = 0.0
        self._kept: deque[EngineReport] = deque()

    def keep(self, clock: "ReportClock") -> None:
        """Only what is not due yet is worth keeping, and what is due now."""
        kept, at = self._kept, clock.due_at
        while kept and kept[0].taken_at < at:
            kept.popleft()
        if kept:
            at = kept[-1].taken_at + clock.every_s
        while at <= clock.taken_at:
            kept.append(self._read(at))
            at += clock.every_s

    def report(self, taken_at: float) -> EngineReport:
        """Of a time that is not older than the last one asked for."""
        self.told_at = taken_at
        kept = self._kept
        while kept and kept[0].taken_at < taken_at:
            kept.popleft()
        return kept[0] if kept and kept[0].taken_at == taken_at else self._read(taken_at)

    def _read(self, at: float) -> EngineReport:
        """At a point of the grid."""
        engine = self.engine
        return EngineReport(
            taken_at=at, kv_usage=engine.kv_usage(at), running=engine.running, waiting=len(engine.waiting)
        )


class ReportClock:
    """`taken_at` is the last point of the grid, `due_at` that of the last reports that have arrived."""

    __slots__ = ("_age_s", "arrives_at", "due_at", "every_s", "taken_at")

    def __init__(self, every_s: float, age_s: float) -> None:
        self.every_s = every_s
        self._age_s = age_s
        self.taken_at = 0.0
        self.due_at = 0.0
        self.arrives_at = inf if age_s <= 0 else every_s + age_s

    def take(self, now: float, *, is_included: bool) -> None:
        """The points of the grid before now, or until now."""
        every_s = self.every_s
        taken_at = self.taken_at
        while taken_at + every_s < now or (is_included and taken_at + every_s <= now):
            taken_at += every_s
        self.taken_at = taken_at

    def arrive(self) -> None:
        """The next reports have."""
        self.due_at += self.every_s
        self.arrives_at = self.due_at + self.every_s + self._age_s
