"""A straight line through what was observed, the newest counting most."""

FORGETTING = 0.98
ERROR_RATE = 0.1
MAX_SURPRISE = 4.0
TRUSTED_AFTER = 8


class Line:
    """y ≈ a + b·x with a, b ≥ 0, least squares of the relative error. `error` is its running mean; 1 while unknown.

    An observation more than MAX_SURPRISE times off counts as so much off once the line is trusted: a stall teaches
    little, a change is learned after a few. Through points of one x it `is_flat`, or goes through the origin.
    """

    __slots__ = ("_w", "_wx", "_wxx", "_wxy", "_wy", "a", "b", "count", "error", "is_flat")

    def __init__(self, *, is_flat: bool, prior: tuple[tuple[float, float], ...] = ()) -> None:
        self.is_flat = is_flat
        self.count = 0
        self.error = 1.0
        self.a = self.b = 0.0
        self._w = self._wx = self._wy = self._wxx = self._wxy = 0.0
        for x, y in prior:
            self._add(x, y)
        if prior:
            self._solve()

    @property
    def is_trusted(self) -> bool:
        return self.count >= TRUSTED_AFTER

    def expect(self, x: float) -> float:
        return self.a + self.b * x

    def learn(self, x: float, y: float) -> None:
        """Both above 0; anything else is ignored."""
        if x <= 0 or y <= 0:
            return
        expected = self.expect(x)
        if expected > 0:
            self._note_error(abs(y / expected - 1))
            if self.is_trusted:
                y = min(max(y, expected / MAX_SURPRISE), expected * MAX_SURPRISE)
        self.count += 1
        self._add(x, y)
        self._solve()

    def _note_error(self, error: float) -> None:
        rate = max(ERROR_RATE, 1 / max(1, self.count))
        self.error += rate * (min(error, MAX_SURPRISE) - self.error)

    def _add(self, x: float, y: float) -> None:
        weight = 1 / (y * y)
        keep = FORGETTING
        self._w = self._w * keep + weight
        self._wx = self._wx * keep + weight * x
        self._wy = self._wy * keep + weight * y
        self._wxx = self._wxx * keep + weight * x * x
        self._wxy = self._wxy * keep + weight * x * y

    def _solve(self) -> None:
        spread = self._w * self._wxx - self._wx * self._wx
        b = -1.0 if spread <= 1e-6 * self._w * self._wxx else (self._w * self._wxy - self._wx * self._wy) / spread
        a = (self._wy - b * self._wx) / self._w
        is_degenerate = spread <= 1e-6 * self._w * self._wxx
        if (is_degenerate and self.is_flat) or (not is_degenerate and b < 0):
            a, b = self._wy / self._w, 0.0
        elif is_degenerate or a < 0:
            a, b = 0.0, self._wxy / self._wxx
        self.a, self.b = a, b
