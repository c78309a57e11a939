"""Engines of one version of which nothing is known beforehand learn together how fast they are.

What a short prompt waits for at first differs by what else its machine did, far more than such engines do. So one that
has shown little is taken to be as fast as the middle of all of them, and by its own observations more and more.
"""

from collections.abc import Iterable
from statistics import median

from workers.scheduling.latency.speed import Speed

TOLD_CHANGE = 0.02
"""By less nobody is told: each is asked to reckon anew."""


class Kinship:
    """Keeps no more than one number: `factor` is the middle of what its members have shown, None before any has."""

    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor: float | None = None

    def learned(self, members: Iterable[Speed]) -> bool:
        """After one of them has shown more: whether that changes what is thought of the others."""
        shown = [speed.own for speed in members if speed.observations]
        if not shown:
            return False
        factor, before = median(shown), self.factor
        if before is not None and abs(factor / before - 1) < TOLD_CHANGE:
            return False
        self.factor = factor
        return True
