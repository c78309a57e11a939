"""Endpoints that load, sleep or are cold."""

import pytest

from tests.unit.workers.scheduling.bench import Bench

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
