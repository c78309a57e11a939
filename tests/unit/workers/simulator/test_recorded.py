"""Requests with times of their own."""

import pytest

from workers.simulator.experiments import RECORDS, Experiment, ExperimentError, run
from workers.simulator.workloads.requests import RecordedRequest, of_requests

pytestmark = pytest.mark.unit

EVENING = tuple(RecordedRequest(at_s=75_000.0 + second, prompt_tokens=100, output_tokens=5) for second in range(10))


def experiment(**more):
    return Experiment(trace=RECORDS, requests=EVENING, replicas=1, policies=("tokenyard",), **more)


def test_a_recording_begins_with_its_first_request():
    workload = of_requests(EVENING, experiment(duration_s=4.0, speed=2.0))
    assert [job.arrived_at for job in workload.jobs] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]


def test_a_day_that_is_quiet_until_the_evening_is_played():
    (summary,) = run(experiment(duration_s=4.0), lambda *_: None)
    assert summary.requests == 4


@pytest.mark.parametrize("duration_s", [0.0, -1.0, float("inf"), float("nan")])
def test_a_duration_that_makes_no_sense_is_refused(duration_s):
    with pytest.raises(ExperimentError, match="duration_s"):
        list(run(experiment(duration_s=duration_s), lambda *_: None))
