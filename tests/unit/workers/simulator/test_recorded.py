"""Requests with times of their own."""

import pytest

from workers.simulator.experiments import RECORDS, Experiment, ExperimentError, FleetPart, parse_fleet, run
from workers.simulator.lab import Lab
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


SLOWER = FleetPart("llama3-8b/l40s/tp1", 1)


def test_a_fleet_may_mix_gpus_and_all_of_them_are_paid_for():
    (alone,) = run(experiment(), lambda *_: None)
    (mixed,) = run(experiment(others=(SLOWER,)), lambda *_: None)
    assert mixed.requests == alone.requests == mixed.answered
    assert mixed.usd_per_request / alone.usd_per_request == pytest.approx(2 * mixed.simulated_s / alone.simulated_s)


def test_a_mixed_fleet_serves_with_the_faster_gpu_first():
    lab = Lab()
    workload = of_requests(EVENING, experiment())
    core = lab.core("tokenyard", workload, 1)
    lab.play(workload, core, fleet=1, others=lab.specs([SLOWER.engine], "tokenyard", workload, 1))
    assert [job.endpoint for job in workload.jobs] == ["e0"] * len(EVENING)


@pytest.mark.parametrize("part", [FleetPart("llama3-8b/none/tp1", 1), FleetPart("llama3-8b/h100/tp1", 0)])
def test_a_part_of_a_fleet_that_cannot_be_is_refused(part):
    with pytest.raises(ExperimentError):
        list(run(experiment(others=(part,)), lambda *_: None))


def test_a_fleet_is_named_by_its_kinds():
    assert parse_fleet("2xllama3-8b/h100/tp1 + 1xllama3-8b/l40s/tp1") == [FleetPart("llama3-8b/h100/tp1", 2), SLOWER]


@pytest.mark.parametrize("text", ["", "four", "4x", "4xllama+", "-1xllama", "٤xllama", "99999xllama"])
def test_what_names_no_fleet_is_refused(text):
    with pytest.raises(ExperimentError, match="Name a fleet"):
        parse_fleet(text)
