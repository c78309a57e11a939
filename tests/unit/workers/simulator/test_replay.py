"""What the simulator saves itself changes nothing of what happens."""

from pathlib import Path

import pytest

from workers.scheduling.standstill import Standstill
from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job
from workers.simulator.lab import Lab, jobs_of
from workers.simulator.replay import ReplayConfig
from workers.simulator.report import score
from workers.simulator.workloads.workload import FollowUp, Session, Workload

pytestmark = pytest.mark.unit

TRACES = Path(__file__).parents[3] / "data" / "traces"
CELLS = [("W1", 1.5), ("W2", 4.5), ("W3", 0.8), ("W4", 2.0), ("W5", 30.0)]


class HearsEveryReport:
    """A scheduler that does not say when reports matter."""

    def __init__(self, core):
        self._core = core

    def __getattr__(self, name):
        if name in {"reports_matter_at", "report_noted"}:
            raise AttributeError(name)
        return getattr(self._core, name)


def outcome(name, load, wrap=lambda core: core):
    lab = Lab(TRACES)
    workload = lab.workload(name, load, seed=3, duration_s=15.0)
    core = lab.core("tokenyard", workload, seed=3)
    ended_at = lab.play(workload, wrap(core)).ended_at
    return ended_at, [
        (job.endpoint, job.first_token_at, job.finished_at, job.is_refused, job.is_cancelled, job.hit_tokens)
        for job in jobs_of(workload)
    ]


@pytest.mark.parametrize(("name", "load"), CELLS)
def test_reports_that_are_kept_back_change_nothing(name, load):
    assert outcome(name, load) == outcome(name, load, HearsEveryReport)


@pytest.mark.parametrize(("name", "load"), CELLS)
def test_where_nothing_changed_looking_again_would_have_sent_nothing(name, load, monkeypatch):
    with_memory = outcome(name, load)
    held = []
    monkeypatch.setattr(Standstill, "seen", lambda *asked: held.append(asked) or 0.0)
    assert outcome(name, load) == with_memory
    assert held


def test_calls_of_lost_workflows_leave_their_engines_and_count_as_waste():
    """Of one whose answers are far longer than expected, and a call of another behind it on an engine of one place."""
    lab = Lab(TRACES)
    long, other = Job(0, 0.0, 1000, 5000), Job(1, 0.0, 1000, 20)
    long.session, other.session = 0, 1
    long.predicted_tokens = other.predicted_tokens = 20.0
    sessions = [Session(0, 0.0, [FollowUp(long, 0.0), FollowUp(Job(2, 0.0, 10, 1), 1.0)], 2.0)]
    sessions.append(Session(1, 1.0, [FollowUp(other, 0.0)], 30.0))
    workload = Workload(
        name="W5", load=1.0, engine="llama3-8b/h100/tp1", limits=EngineLimits(max_sequences=1), sessions=sessions
    )
    core = lab.core("tokenyard", workload, seed=3)
    outcome = lab.play(workload, core, ReplayConfig(max_running=1), fleet=1)
    assert [job.is_cancelled for job in outcome.jobs] == [True, False, False]
    assert long.finished_at is None
    assert 50 < long.generated < 400
    assert 2.0 < other.first_token_at < 2.2
    assert not outcome.jobs[1].endpoint  # what would have followed never came
    waste = core.workflow_waste()
    assert (waste.workflows, waste.tokens) == (1, 1000 + long.generated - 1)  # the last of them came too late
    assert score(workload, outcome.jobs, outcome.ended_at, 1).wasted == pytest.approx(0.5, abs=0.3)
    assert core.running_total() == core.queued_total() == 0
