"""What the simulator saves itself changes nothing of what happens."""

from pathlib import Path

import pytest

from workers.scheduling.standstill import Standstill
from workers.simulator.lab import Lab, jobs_of

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
        (job.endpoint, job.first_token_at, job.finished_at, job.is_refused, job.hit_tokens) for job in jobs_of(workload)
    ]


@pytest.mark.parametrize(("name", "load"), CELLS)
def test_reports_that_are_kept_back_change_nothing(name, load):
    assert outcome(name, load) == outcome(name, load, HearsEveryReport)


@pytest.mark.parametrize(("name", "load"), CELLS)
def test_where_nothing_changed_looking_again_would_have_sent_nothing(name, load, monkeypatch):
    with_memory = outcome(name, load)
    held = []
    monkeypatch.setattr(Standstill, "holds", lambda *seen: held.append(seen))
    assert outcome(name, load) == with_memory
    assert held
