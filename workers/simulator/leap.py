"""Steps of an engine that are taken in one leap."""

from math import sqrt


class Leap:
    """`steps` of decodes alone, each `growth_s` longer than the one before: their contexts grow by a token each."""

    __slots__ = ("_began_at", "_growth_s", "_step_s", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self._began_at = 0.0
        self._step_s = 0.0
        self._growth_s = 0.0

    def begin(self, now: float, step_s: float, growth_s: float) -> None:
        self._began_at, self._step_s, self._growth_s = now, step_s, growth_s

    def ends_at(self) -> float:
        return self._began_at + self._length_s(self.steps)

    def steps_begun(self, now: float) -> int:
        """The one that runs now included; at least 1."""
        growth_s, elapsed_s = self._growth_s, now - self._began_at
        if growth_s > 0:
            base_s = self._step_s - growth_s / 2
            done = int((sqrt(base_s * base_s + 2 * growth_s * elapsed_s) - base_s) / growth_s)
        else:
            done = int(elapsed_s / self._step_s)
        while self._length_s(done) < elapsed_s:
            done += 1
        return max(1, done)

    def _length_s(self, steps: int) -> float:
        return steps * self._step_s + self._growth_s * (steps * (steps - 1) // 2)
