"""What a run says to those who pay for the machines."""

import pytest

from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job
from workers.simulator.summary import summarise
from workers.simulator.workloads.workload import Workload

pytestmark = pytest.mark.unit


def a_job(number, rank):
    job = Job(number, 0.0, 100, 10)
    job.rank, job.tenant, job.endpoint = rank, f"t{rank}", "e0"
    job.ttft_slo_s = job.tpot_slo_s = 1.0
    job.first_token_at, job.finished_at = 0.1, 0.5
    return job


def test_classes_are_listed_from_the_highest_and_tenants_by_what_they_asked():
    jobs = [a_job(number, rank) for number, rank in enumerate((2, 2, 2, 0, 1, 1))]
    workload = Workload(name="t", load=1.0, engine="e", limits=EngineLimits(), jobs=jobs)
    summary = summarise("ours", workload, jobs, ended_at=1.0, fleet=1, usd_per_hour=3.6)
    assert [(each.name, each.requests) for each in summary.by_class] == [("highest", 1), ("middle", 2), ("lowest", 3)]
    assert [each.name for each in summary.by_tenant] == ["t2", "t1", "t0"]
    assert summary.usd_per_request == pytest.approx(0.001 / 6)
