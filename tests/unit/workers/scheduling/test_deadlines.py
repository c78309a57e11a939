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


def test_what_no_engine_could_answer_in_time_is_refused_at_once_by_an_idle_fleet():
    bench = Bench()
    bench.endpoint()
    number = bench.arrive(prompt_tokens=1000, predicted_output_tokens=500.0, deadline_at=bench.now + 0.001)
    assert (bench.rejects[number].code, bench.rejects[number].reason) == ("cannot_meet_deadline", "deadline_passed")
    assert bench.rejects[number].retry_after_s is None
    hopeful = bench.arrive(prompt_tokens=1000, predicted_output_tokens=500.0, deadline_at=bench.now + 100.0)
    assert bench.sent[hopeful] == "e1"


def test_a_deadline_that_passed_before_it_came_is_refused_by_engines_of_unknown_speed_too():
    bench = Bench()
    bench.endpoint(spec=DEFAULT_SPEC)
    assert bench.arrive(deadline_at=bench.now - 0.001) in bench.rejects


def test_a_cheaper_version_that_may_be_in_time_is_tried_before_it_is_refused():
    bench = Bench()
    bench.endpoint("large", version="v1")
    bench.endpoint("small", version="v2", spec=DEFAULT_SPEC)
    hopeless = {"prompt_tokens": 1000, "predicted_output_tokens": 500.0, "deadline_at": bench.now + 0.001}
    number = bench.arrive(version="v1", alternatives=("v2",), **hopeless)
    assert bench.sent[number] == "small"


def test_what_waits_is_not_refused_by_a_length_that_is_only_a_guess():
    """Of a tenant that has had no answer yet, two hundred tokens are expected, and twenty would do."""
    bench = Bench()
    bench.endpoint(slots=1)
    running = bench.arrive()
    bench.first_token(running)
    number = bench.arrive(tenant="new", predicted_output_tokens=200.0, deadline_at=bench.now + 1.0)
    bench.after(0.3, step=0.02)
    assert number not in bench.rejects
    bench.finish(running)
    assert bench.sent[number] == "e1"


def test_a_stream_that_broke_is_not_continued_after_its_deadline():
    bench = Bench(patience_s=1e6)
    bench.endpoint()
    number = bench.arrive(deadline_at=bench.now + 10.0)
    bench.first_token(number)
    bench.scheduler.endpoint_lost("e1", bench.now)
    bench.fail(number, generated_tokens=5)
    bench.after(9.9, step=0.5)
    assert bench.rejects == {}
    bench.after(0.5)
    assert bench.rejects[number].reason == "deadline_passed"
    bench.endpoint("e2")
    assert bench.order == [number]
