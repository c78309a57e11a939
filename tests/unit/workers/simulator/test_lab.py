"""Extracts of the public traces, played through the scheduler that serves."""

from pathlib import Path

import pytest

from workers.simulator.lab import FLEET_SIZE, Lab
from workers.simulator.report import jain, score

pytestmark = pytest.mark.unit

TRACES = Path(__file__).parents[3] / "data" / "traces"
SHORT_S = 40.0


def scores_of(policy, name, load, *, duration_s=SHORT_S):
    lab = Lab(TRACES)
    workload = lab.workload(name, load, seed=1, duration_s=duration_s)
    outcome = lab.play(workload, lab.core(policy, workload, seed=1))
    return score(workload, outcome.jobs, outcome.ended_at, FLEET_SIZE)


@pytest.mark.parametrize(("name", "load"), [("W1", 0.7), ("W2", 0.7), ("W3", 0.2), ("W4", 0.7), ("W5", 0.7)])
def test_nothing_is_refused_below_capacity(name, load):
    scores = scores_of("tokenyard", name, load)
    assert scores.refused == 0
    assert scores.value > 0.9


def test_past_capacity_ours_keeps_answering_in_time_where_a_router_does_not():
    ours = scores_of("tokenyard", "W3", 1.0, duration_s=25.0)
    router = scores_of("least-outstanding", "W3", 1.0, duration_s=25.0)
    assert ours.value > router.value + 0.2
    assert ours.by_tenant["gold"] > 0.9


@pytest.mark.parametrize(
    "policy",
    ["round-robin", "random", "power-of-two", "cache-aware", "prefix-aware", "prefix-load", "kv-cost+16+edf+late",
     "least-outstanding+8+vtc", "least-outstanding+8+priority+class", "kv-cost+saturation+fcfs+deep",
     "least-outstanding+8+sjf+old"],
)  # fmt: skip
def test_every_peer_answers_or_refuses_every_request(policy):
    lab = Lab(TRACES)
    workload = lab.workload("W1", 1.0, seed=2, duration_s=20.0)
    outcome = lab.play(workload, lab.core(policy, workload, seed=2))
    assert all(job.finished_at is not None or job.is_refused for job in outcome.jobs)


def test_a_workload_is_the_same_for_the_same_seed_and_another_for_another():
    lab = Lab(TRACES)
    shapes = [
        [(job.arrived_at, job.predicted_tokens) for job in lab.workload("W1", 1.0, seed, 20.0).jobs]
        for seed in (1, 1, 2)
    ]
    assert shapes[0] == shapes[1] != shapes[2]


def test_jain_is_one_for_equal_shares():
    assert jain([0.5, 0.5]) == pytest.approx(1.0)
    assert jain([1.0, 0.0]) == pytest.approx(0.5)
