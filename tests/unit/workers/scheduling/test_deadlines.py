"""A deadline that has passed ends the waiting, whatever is known of the engines."""

import pytest

from tests.unit.workers.scheduling.bench import Bench
from workers.scheduling.endpoint_spec import DEFAULT_SPEC

pytestmark = pytest.mark.unit


def after_its_deadline(bench, number):
    bench.after(0.5, step=0.1)
    assert bench.rejects == {}
    bench.after(0.6, step=0.05)
    return bench.rejects[number].code, bench.rejects[number].reason


def test_while_there_is_no_endpoint():
    bench = Bench()
    number = bench.arrive(deadline_at=bench.now + 1.0)
    assert after_its_deadline(bench, number) == ("cannot_meet_deadline", "deadline_passed")


def test_on_engines_of_unknown_speed():
    bench = Bench()
    bench.endpoint(spec=DEFAULT_SPEC, slots=1)
    bench.arrive()
    number = bench.arrive(deadline_at=bench.now + 1.0)
    assert after_its_deadline(bench, number) == ("cannot_meet_deadline", "deadline_passed")


def test_after_an_attempt_that_failed_when_no_other_endpoint_is_left():
    bench = Bench()
    bench.endpoint()
    number = bench.arrive(deadline_at=bench.now + 1.0)
    bench.scheduler.endpoint_lost("e1", bench.now)
    bench.fail(number)
    assert after_its_deadline(bench, number) == ("cannot_meet_deadline", "deadline_passed")


def test_of_a_request_that_was_withdrawn_nothing_is_refused():
    bench = Bench()
    number = bench.arrive(deadline_at=bench.now + 1.0)
    bench.note(bench.scheduler.request_withdrawn(number, bench.now))
    bench.after(2.0, step=0.1)
    assert bench.rejects == {}


def test_with_an_endpoint_come_in_time_it_is_served():
    bench = Bench()
    number = bench.arrive(deadline_at=bench.now + 1.0)
    bench.after(0.2)
    bench.endpoint()
    bench.after(2.0, step=0.1)
    assert (bench.sent, bench.rejects) == ({number: "e1"}, {})
