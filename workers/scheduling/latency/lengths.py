"""How long an answer will be: the driver's prediction, calibrated online."""

from math import exp, log, sqrt

from workers.scheduling.endpoint_spec import LengthState
from workers.scheduling.request import MOST_TOKENS

PRIOR_PAIRS = 20.0
PRIOR_LOG_LENGTH = 5.0
PRIOR_VARIANCE = 1.0
UNSEEN_VARIANCE = 4.0
"""In squared logs: how far from what is usual an unseen tenant's answers may lie; half of that after one answer."""
FORGETTING = 0.999
MIN_LOG_VARIANCE = 1e-6
MEAN_RATE = 0.05
MAX_LOG_ERROR = 3.0
"""An answer twenty times as long as expected counts as that: outliers move no estimate far."""
MAX_SLOPE = 4.0
"""Predictions that are all alike say nothing of others, whatever line goes through them best."""


class Regression:
    """log(actual) on log(predicted), least squares with forgetting; starts as "the prediction is right".

    `log_variance` is the squared standard error of a log length: the uncertainty of `expect`.
    """

    __slots__ = ("_base", "_log_base", "_pairs", "_slope", "_x", "_xx", "_xy", "_y", "_yy")

    def __init__(self) -> None:
        self._pairs = PRIOR_PAIRS
        self._x = self._y = PRIOR_PAIRS * PRIOR_LOG_LENGTH
        self._xx = self._xy = self._yy = PRIOR_PAIRS * (PRIOR_LOG_LENGTH**2 + PRIOR_VARIANCE)
        self._solve()

    def learn(self, predicted: float, actual: float) -> None:
        x = log(max(1.0, predicted))
        y = _near(log(max(1.0, actual)), self._log_base + self._slope * x)
        self._pairs = self._pairs * FORGETTING + 1
        self._x = self._x * FORGETTING + x
        self._y = self._y * FORGETTING + y
        self._xx = self._xx * FORGETTING + x * x
        self._xy = self._xy * FORGETTING + x * y
        self._yy = self._yy * FORGETTING + y * y
        self._solve()

    def expect(self, predicted: float) -> float:
        return min(MOST_TOKENS, float(self._base * max(1.0, predicted) ** self._slope))

    def log_variance(self) -> float:
        mean_y = self._y / self._pairs
        variance = self._yy / self._pairs - mean_y**2 - self._slope**2 * self._variance_x()
        return max(MIN_LOG_VARIANCE, variance)

    def _solve(self) -> None:
        mean_x, mean_y = self._x / self._pairs, self._y / self._pairs
        slope = (self._xy / self._pairs - mean_x * mean_y) / self._variance_x()
        self._slope = min(MAX_SLOPE, max(-MAX_SLOPE, slope))
        self._log_base = mean_y - self._slope * mean_x
        self._base = exp(self._log_base)

    def _variance_x(self) -> float:
        return max(MIN_LOG_VARIANCE, self._xx / self._pairs - (self._x / self._pairs) ** 2)


class MeanLog:
    """For answers without a prediction: a running mean of log lengths, and how far they lie from it."""

    __slots__ = ("_mean", "_variance", "answers")

    def __init__(self) -> None:
        self._mean = PRIOR_LOG_LENGTH
        self._variance = PRIOR_VARIANCE
        self.answers = 0

    def learn(self, actual: float) -> None:
        error = _near(log(max(1.0, actual)), self._mean) - self._mean
        self._mean += MEAN_RATE * error
        self._variance += MEAN_RATE * (error * error - self._variance)
        self.answers += 1

    def expect(self) -> float:
        return exp(self._mean)

    def log_variance(self) -> float:
        return max(MIN_LOG_VARIANCE, self._variance)


class LengthModel:
    """One calibration per tenant. `max_tenants` bounds memory; who has had no answer for the longest goes first."""

    def __init__(self, max_tenants: int = 10_000) -> None:
        self._max_tenants = max_tenants
        self._by_tenant: dict[str, tuple[Regression, MeanLog]] = {}
        self._newcomer = (Regression(), MeanLog())

    def expect(self, tenant_id: str, predicted: float) -> float:
        regression, mean = self._by_tenant.get(tenant_id, self._newcomer)
        return regression.expect(predicted) if predicted > 0 else mean.expect()

    def log_deviation(self, tenant_id: str, predicted: float) -> float:
        """Two answers out of three are within a factor of e to this power of what is expected."""
        regression, mean = self._by_tenant.get(tenant_id, self._newcomer)
        variance = regression.log_variance() if predicted > 0 else mean.log_variance()
        return sqrt(variance + UNSEEN_VARIANCE / (1 + mean.answers))

    def learn(self, tenant_id: str, predicted: float, actual: int) -> None:
        models = self._by_tenant.pop(tenant_id, None) or (Regression(), MeanLog())
        self._by_tenant[tenant_id] = models
        if len(self._by_tenant) > self._max_tenants:
            del self._by_tenant[next(iter(self._by_tenant))]
        regression, mean = models
        mean.learn(actual)
        if predicted > 0:
            regression.learn(predicted, actual)

    def states(self) -> list[LengthState]:
        return [_state(tenant_id, *models) for tenant_id, models in sorted(self._by_tenant.items())]


def _near(log_length: float, expected: float) -> float:
    if abs(log_length - expected) <= MAX_LOG_ERROR:
        return log_length
    return expected + (MAX_LOG_ERROR if log_length > expected else -MAX_LOG_ERROR)


def _state(tenant_id: str, regression: Regression, mean: MeanLog) -> LengthState:
    typical = mean.expect()
    return LengthState(
        tenant_id=tenant_id,
        typical_tokens=typical,
        factor=regression.expect(typical) / typical,
        log_deviation=sqrt(regression.log_variance()),
        answers=mean.answers,
    )
