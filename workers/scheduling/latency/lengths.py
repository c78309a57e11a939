"""How long an answer will be: the driver's prediction, calibrated online."""

from math import exp, log, sqrt

PRIOR_PAIRS = 20.0
PRIOR_LOG_LENGTH = 5.0
PRIOR_VARIANCE = 1.0
FORGETTING = 0.999
MIN_LOG_VARIANCE = 1e-6


class Regression:
    """log(actual) on log(predicted), least squares with forgetting; starts as "the prediction is right"."""

    __slots__ = ("_pairs", "_x", "_xx", "_xy", "_y", "_yy")

    def __init__(self) -> None:
        self._pairs = PRIOR_PAIRS
        self._x = self._y = PRIOR_PAIRS * PRIOR_LOG_LENGTH
        self._xx = self._xy = self._yy = PRIOR_PAIRS * (PRIOR_LOG_LENGTH**2 + PRIOR_VARIANCE)

    def learn(self, predicted: float, actual: float) -> None:
        x, y = log(max(1.0, predicted)), log(max(1.0, actual))
        self._pairs = self._pairs * FORGETTING + 1
        self._x = self._x * FORGETTING + x
        self._y = self._y * FORGETTING + y
        self._xx = self._xx * FORGETTING + x * x
        self._xy = self._xy * FORGETTING + x * y
        self._yy = self._yy * FORGETTING + y * y

    def expect(self, predicted: float) -> float:
        mean_x, mean_y = self._x / self._pairs, self._y / self._pairs
        return exp(mean_y + self._slope() * (log(max(1.0, predicted)) - mean_x))

    def log_deviation(self) -> float:
        """The standard error of a log length: the uncertainty of `expect`."""
        mean_y = self._y / self._pairs
        variance = self._yy / self._pairs - mean_y**2 - self._slope() ** 2 * self._variance_x()
        return sqrt(max(MIN_LOG_VARIANCE, variance))

    def _variance_x(self) -> float:
        return max(MIN_LOG_VARIANCE, self._xx / self._pairs - (self._x / self._pairs) ** 2)

    def _slope(self) -> float:
        return (self._xy / self._pairs - self._x * self._y / self._pairs**2) / self._variance_x()


class MeanLog:
    """For answers without a prediction: a running mean of log lengths."""

    __slots__ = ("_mean",)

    def __init__(self) -> None:
        self._mean = PRIOR_LOG_LENGTH

    def learn(self, actual: float) -> None:
        self._mean += 0.05 * (log(max(1.0, actual)) - self._mean)

    def expect(self) -> float:
        return exp(self._mean)


class LengthModel:
    """One calibration per tenant. `max_tenants` bounds memory; the longest unused goes first."""

    def __init__(self, max_tenants: int = 10_000) -> None:
        self._max_tenants = max_tenants
        self._by_tenant: dict[str, tuple[Regression, MeanLog]] = {}

    def expect(self, tenant_id: str, predicted: float) -> float:
        regression, mean = self._of(tenant_id)
        return regression.expect(predicted) if predicted > 0 else mean.expect()

    def learn(self, tenant_id: str, predicted: float, actual: int) -> None:
        regression, mean = self._of(tenant_id)
        mean.learn(actual)
        if predicted > 0:
            regression.learn(predicted, actual)

    def _of(self, tenant_id: str) -> tuple[Regression, MeanLog]:
        models = self._by_tenant.pop(tenant_id, None)
        if models is None:
            models = (Regression(), MeanLog())
            if len(self._by_tenant) >= self._max_tenants:
                del self._by_tenant[next(iter(self._by_tenant))]
        self._by_tenant[tenant_id] = models
        return models
