"""Endpoints that load, sleep or are cold."""

import pytest

from tests.unit.workers.scheduling.bench import KNOWN, Bench
from workers.scheduling.endpoint_spec import DEFAULT_SPEC

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("warmth", ["cold", "loading", "asleep"])
def test_nothing_is_sent_to_one_that_is_not_warm(warmth):
    bench = Bench()
    bench.endpoint("e1", warmth=warmth)
    assert bench.arrive() not in bench.sent


def test_one_that_loads_takes_work_when_it_said_it_would():
    bench = Bench()
    bench.endpoint("e1", warmth="loading", ready_in_s=5.0)
    number = bench.arrive()
    assert bench.scheduler.next_deadline() <= bench.now + 5.0
    bench.after(4.0, step=1.0)
    assert number not in bench.sent
    bench.after(1.1)
    assert bench.sent[number] == "e1"


def test_who_waits_for_one_that_loads_is_told_when_it_will_be_there():
    bench = Bench(patience_s=15.0)
    bench.endpoint("e1", warmth="loading", ready_in_s=100.0)
    number = bench.arrive()
    bench.after(20.0, step=1.0)
    assert bench.rejects[number].code == "no_endpoint"
    assert 80 <= bench.rejects[number].retry_after_s <= 85


def test_a_warm_one_is_taken_meanwhile():
    bench = Bench()
    bench.endpoint("cold", warmth="cold")
    bench.endpoint("warm")
    assert {bench.sent[bench.arrive()] for _ in range(5)} == {"warm"}


def test_it_takes_work_once_it_is_warm():
    bench = Bench()
    bench.endpoint("e1", warmth="asleep")
    number = bench.arrive()
    bench.endpoint("e1")
    assert bench.sent[number] == "e1"
    assert bench.state().warmth == "warm"


@pytest.mark.parametrize("away", [{"draining": True}, {"warmth": "cold"}, {"warmth": "loading", "ready_in_s": 600.0}])
def test_late_work_runs_on_the_only_endpoint_that_may_be_sent_to(away):
    bench = Bench()
    bench.endpoint("e1", slots=1)
    bench.endpoint("e2", **away)
    running, late = bench.arrive(), bench.arrive(ttft_slo_s=0.5)
    bench.after(1.0, step=0.02)
    bench.finish(running)
    bench.after(0.04, step=0.02)
    assert bench.sent[late] == "e1"


def test_the_plan_counts_on_nothing_that_may_not_be_sent_to():
    bench = Bench(suspend_s=5.0)
    slots = bench.scheduler._queues
    for name in ("e1", "e2", "e3", "e4"):
        bench.endpoint(name, spec=KNOWN)
    plan = slots.pools["v1"].plan
    assert plan.slots.capacity == 4
    bench.endpoint("e1", draining=True)
    bench.endpoint("e2", warmth="asleep")
    bench.fail(bench.arrive(), may_retry=False)
    bench.after(0.5, step=0.02)
    assert plan.slots.capacity == 4, "what pauses for a moment is not missed"
    bench.after(1.0, step=0.02)
    assert plan.slots.capacity == 1
    bench.endpoint("e2")
    bench.after(6.0)
    assert plan.slots.capacity == 3


def test_an_engine_that_has_shown_nothing_yet_frees_nobody_of_limits_before_it_may_be_sent_to():
    bench = Bench()
    bench.endpoint("e1", slots=1)
    bench.endpoint("e2", spec=DEFAULT_SPEC, warmth="loading", ready_in_s=600.0)
    bench.arrive()
    late = bench.arrive(ttft_slo_s=0.001)
    waiting = bench.scheduler._queues.pools["v1"].waiting
    assert [ticket.state.value for ticket in waiting.values()] == ["late"], late
    bench.endpoint("e2", spec=DEFAULT_SPEC, slots=0)
    bench.arrive(ttft_slo_s=0.001)
    assert [ticket.state.value for ticket in waiting.values()] == ["late", "kept"]
