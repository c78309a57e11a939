from math import sqrt
from random import Random

import pytest

from workers.scheduling.latency.lengths import LengthModel, MeanLog, Regression

pytestmark = pytest.mark.unit


def test_a_prediction_is_trusted_at_first():
    assert Regression().expect(300.0) == pytest.approx(300.0, rel=1e-6)


def test_a_predictor_that_is_half_of_the_truth_is_corrected():
    regression = Regression()
    rng = Random(1)  # noqa: S311 - seeded
    for _ in range(2000):
        predicted = rng.lognormvariate(5, 1)
        regression.learn(predicted, 2 * predicted)
    assert regression.expect(100.0) == pytest.approx(200.0, rel=0.05)


def test_a_predictor_without_information_ends_at_the_mean():
    regression = Regression()
    rng = Random(2)  # noqa: S311 - seeded
    for _ in range(5000):
        regression.learn(rng.lognormvariate(5, 1), rng.lognormvariate(4, 0.1))
    assert regression.expect(10.0) == pytest.approx(regression.expect(1000.0), rel=0.3)
    assert sqrt(regression.log_variance()) == pytest.approx(0.1, abs=0.1)


def test_without_a_prediction_the_tenants_own_mean_counts():
    lengths = LengthModel()
    for _ in range(200):
        lengths.learn("brief", 0.0, 10)
        lengths.learn("wordy", 0.0, 1000)
    assert lengths.expect("brief", 0.0) == pytest.approx(10, rel=0.1)
    assert lengths.expect("wordy", 0.0) == pytest.approx(1000, rel=0.1)


def test_tenants_are_bounded():
    lengths = LengthModel(max_tenants=3)
    for number in range(10):
        lengths.learn(f"t{number}", 0.0, 5)
    assert len(lengths._by_tenant) == 3
    assert MeanLog().expect() == lengths.expect("t0", 0.0)


def test_what_nobody_has_seen_is_uncertain_and_soon_less_so():
    lengths = LengthModel()
    deviations = []
    for _ in range(40):
        deviations.append(lengths.log_deviation("new", 148.0))
        lengths.learn("new", 148.0, 140)
    assert deviations[0] >= 2
    assert deviations == sorted(deviations, reverse=True)
    assert deviations[5] < 1
    assert deviations[-1] < 0.4
