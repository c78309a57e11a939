"""A live run says how far it is, and judges only what can be judged by its end."""

import pytest

from benchmarks.live_course import Course, judged, within_s
from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job
from workers.simulator.workloads.workload import FollowUp, Session, Workload

pytestmark = pytest.mark.unit


def job(number, arrived_at=0.0):
    made = Job(number, arrived_at, 4, 10)
    made.ttft_slo_s, made.tpot_slo_s = 1.0, 0.1
    return made


def workload(jobs=(), sessions=()):
    return Workload(name="W", load=1.0, engine="", limits=EngineLimits(), jobs=list(jobs), sessions=list(sessions))


def test_of_a_run_that_was_stopped_those_are_judged_whose_limit_has_passed_by_the_plan():
    plan = workload([job(1, 0.0), job(2, 5.0), job(3, 9.0)])
    live = workload([job(1, 0.5), job(2, 30.0), job(3, 9.0)])
    assert [each.number for each in judged(live, plan, 10.0).jobs] == [1, 2]


def test_a_workflow_is_judged_once_its_deadline_has_passed():
    sessions = [Session(number, 0.0, [FollowUp(job(number), 0.0)], budget_s) for number, budget_s in ((1, 9), (2, 11))]
    assert [each.number for each in judged(workload((), sessions), workload(), 10.0).sessions] == [1]


def test_calls_without_a_deadline_are_judged_when_all_their_limits_have_passed():
    short, long = [FollowUp(job(1), 0.0)], [FollowUp(job(2), 0.0), FollowUp(job(3), 30.0)]
    sessions = [Session(number, 0.0, calls) for number, calls in enumerate((short, long))]
    assert [each.number for each in judged(workload((), sessions), workload(), 10.0).sessions] == [0]


def test_how_far_a_run_is_stands_beside_how_far_it_will_go():
    course = Course(5, 90.0)
    course.ended()
    course.ended(2)
    assert course.told(30.2) == "30 of about 90 s: 3 of 5 requests have ended"


def test_a_run_may_take_longer_than_the_simulator_says_but_not_for_ever():
    assert 90.0 < within_s(90.0) < 180.0
    assert within_s(0.0) > 0
