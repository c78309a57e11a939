"""How fast an engine is, against what its cost formula says: learned from every observation, never by much from one."""

from math import exp, log
from statistics import median

LEARNING_RATE = 0.05
MIN_RATIO, MAX_RATIO = 0.5, 2.0
MIN_FACTOR, MAX_FACTOR = 0.4, 2.5
LEARNED_AFTER = 5
UNKNOWN_RANGE = 500.0
KIN_OBSERVATIONS = 50
"""So much of its own does what an engine has shown weigh as much as what its kin have."""
SHOWN_ENOUGH = 4 * KIN_OBSERVATIONS


class Speed:
    """`factor` times the formula is what a step takes; `deviation` is by how much of it single observations differ.

    An unknown speed is the median of the first LEARNED_AFTER observations, and believed from then on; what is known
    beforehand moves from its prior by LEARNING_RATE at a time. An outlier counts no more than MAX_RATIO.
    `own` is what it has shown itself, `factor` the same unless it leans on its kin.
    """

    __slots__ = ("_first", "_highest", "_kin", "_lowest", "deviation", "factor", "is_learned", "observations", "own")

    def __init__(self, *, is_known: bool) -> None:
        self.factor = self.own = 1.0
        self._kin: float | None = None
        self.deviation = 0.0
        self.observations = 0
        self.is_learned = is_known
        self._first: list[float] = []
        self._lowest, self._highest = (MIN_FACTOR, MAX_FACTOR) if is_known else (1 / UNKNOWN_RANGE, UNKNOWN_RANGE)

    def learn(self, ratio: float) -> None:
        """`ratio` is what was observed over what was expected with the present factor."""
        self.observations += 1
        if not self.is_learned:
            self._begin(ratio * self.factor)
        else:
            of_own = ratio if self._kin is None else ratio * self.factor / self.own
            self._move(min(MAX_RATIO, max(MIN_RATIO, of_own)))
        self._weigh()

    def lean_on(self, kin: float | None) -> None:
        """Until it has shown enough itself, it is taken to be much like engines of its kind."""
        self._kin = kin
        self._weigh()

    def leans(self) -> bool:
        """Whether its kin still count for something."""
        return self.observations < SHOWN_ENOUGH

    def _weigh(self) -> None:
        if self._kin is None:
            self.factor = self.own
            return
        shown = max(0, self.observations - LEARNED_AFTER)  # the first few tell the kin, and so what all are like
        of_own = shown / (shown + KIN_OBSERVATIONS)
        self.factor = exp(of_own * log(self.own) + (1 - of_own) * log(self._kin))

    def _move(self, ratio: float) -> None:
        own = self.own * (1 + LEARNING_RATE * (ratio - 1))
        self.own = min(self._highest, max(self._lowest, own))
        self.deviation += LEARNING_RATE * (abs(ratio - 1) - self.deviation)

    def _begin(self, factor: float) -> None:
        self._first.append(min(self._highest, max(self._lowest, factor)))
        self.own = median(self._first)
        if len(self._first) == LEARNED_AFTER:
            self.is_learned = True
            self.deviation = median(abs(first / self.own - 1) for first in self._first)
            self._first.clear()


class Pace:
    """The time per token of answers, as it is: `step_s` is None before the first."""

    __slots__ = ("deviation", "observations", "step_s")

    def __init__(self) -> None:
        self.step_s: float | None = None
        self.deviation = 0.0
        self.observations = 0

    def learn(self, pace_s: float) -> None:
        self.observations += 1
        step_s = self.step_s
        if step_s is None or step_s <= 0:
            self.step_s = pace_s
            return
        ratio = min(MAX_RATIO, max(MIN_RATIO, pace_s / step_s))
        self.step_s = step_s * (1 + LEARNING_RATE * (ratio - 1))
        self.deviation += LEARNING_RATE * (abs(ratio - 1) - self.deviation)
