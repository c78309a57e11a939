"""The paces (TPOT) that running requests must be answered at."""

from math import inf


class Paces:
    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[float, int] = {}

    def add(self, pace_s: float | None) -> None:
        if pace_s is not None:
            self._counts[pace_s] = self._counts.get(pace_s, 0) + 1

    def remove(self, pace_s: float | None) -> None:
        if pace_s is None:
            return
        if self._counts[pace_s] == 1:
            del self._counts[pace_s]
        else:
            self._counts[pace_s] -= 1

    def tightest_s(self) -> float:
        tightest_s = inf
        for pace_s in self._counts:  # nearly always one: `min` of a dict is a call of a builtin for each request
            tightest_s = min(tightest_s, pace_s)
        return tightest_s
