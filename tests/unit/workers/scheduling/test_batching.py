"""Batches for engines that do not batch by themselves."""

import pytest
from msgspec import structs

from tests.unit.workers.scheduling.bench import KNOWN, Bench
from workers.scheduling.endpoint_spec import Batching

pytestmark = pytest.mark.unit


def a_bench(*, endpoints=1, slots=1000, **batching):
    bench = Bench()
    spec = structs.replace(KNOWN, batching=Batching(**{"max_requests": 4, "window_s": 0.05, **batching}))
    for number in range(endpoints):
        bench.endpoint(f"e{number}", spec=spec, slots=slots)
    return bench


def test_a_lone_request_goes_when_its_window_closes():
    bench = a_bench()
    number = bench.arrive()
    assert bench.sent == {}
    assert bench.scheduler.next_deadline() <= bench.now + 0.05
    bench.after(0.06)
    assert list(bench.sent) == [number]


def test_a_full_batch_goes_at_once_and_together():
    bench = a_bench()
    numbers = [bench.arrive() for _ in range(4)]
    assert list(bench.sent) == numbers
    assert {bench.batches[number] for number in numbers} == {1}


def test_a_batch_is_full_by_tokens_too():
    bench = a_bench(max_requests=100, max_tokens=1000)
    for _ in range(3):
        bench.arrive(prompt_tokens=400)
    assert len(bench.sent) == 2


def test_a_continuation_fills_a_batch_by_all_that_is_read_again():
    bench = a_bench(max_requests=100, max_tokens=1000, window_s=0.05)
    broken = bench.arrive(prompt_tokens=100)
    bench.after(0.06)
    bench.fail(broken, generated_tokens=700, retry_after_s=0.1)
    others = [bench.arrive(prompt_tokens=400) for _ in range(2)]
    bench.after(0.2, step=0.05)
    assert bench.order == [broken, broken]
    bench.finish(broken, 800)
    assert bench.order == [broken, broken, *others]


def test_what_is_late_already_fills_a_batch_and_no_more():
    bench = a_bench(max_requests=100, max_tokens=1000, window_s=0.5)
    alone, *late = [bench.arrive(prompt_tokens=400, ttft_slo_s=1e-6) for _ in range(4)]
    assert list(bench.sent) == [alone]
    bench.finish(alone, 0)
    assert list(bench.sent) == [alone, *late[:2]]


def test_a_request_larger_than_a_batch_goes_alone():
    bench = a_bench(max_requests=100, max_tokens=1000)
    huge = bench.arrive(prompt_tokens=50_000)
    assert list(bench.sent) == [huge]


def test_the_tightest_deadline_inside_closes_the_window():
    bench = a_bench(window_s=10.0)
    patient = bench.arrive()
    urgent = bench.arrive(ttft_slo_s=0.1)
    bench.after(0.1)
    assert set(bench.sent) == {patient, urgent}


def test_the_next_batch_waits_for_the_one_before_and_then_takes_what_came():
    bench = a_bench()
    first = [bench.arrive() for _ in range(4)]
    second = [bench.arrive() for _ in range(6)]
    bench.after(1.0, step=0.1)
    assert list(bench.sent) == first
    for number in first:
        bench.finish(number, 0)
    assert list(bench.sent) == first + second[:4]
    assert {bench.batches[number] for number in second[:4]} == {2}


def test_batches_spread_over_idle_engines():
    bench = a_bench(endpoints=2)
    numbers = [bench.arrive() for _ in range(8)]
    assert {bench.sent[number] for number in numbers[:4]} != {bench.sent[number] for number in numbers[4:]}
    assert len(bench.sent) == 8


def test_who_left_is_in_no_batch():
    bench = a_bench()
    gone, stays = bench.arrive(), bench.arrive()
    bench.note(bench.scheduler.request_withdrawn(gone, bench.now))
    bench.after(0.06)
    assert list(bench.sent) == [stays]


def test_a_batch_is_no_larger_than_the_engine_has_slots():
    bench = a_bench(slots=2)
    numbers = [bench.arrive() for _ in range(4)]
    bench.after(0.06)
    assert list(bench.sent) == numbers[:2]


def test_what_came_while_no_engine_was_there_is_in_the_window_of_one_that_comes_back():
    bench = a_bench()
    spec = bench.scheduler._endpoints["e0"].spec
    bench.scheduler.endpoint_lost("e0", bench.now)
    number = bench.arrive()
    bench.endpoint("e0", spec=spec)
    bench.after(0.1)
    assert list(bench.sent) == [number]


def test_nobody_has_to_ask_again_and_again_while_all_engines_are_busy():
    bench = a_bench()
    bench.arrive()
    bench.after(0.06)
    waiting = bench.arrive()
    bench.after(1.0)
    assert bench.scheduler.next_deadline() > bench.now
    bench.finish(1, 0)
    assert waiting in bench.sent


def test_late_work_does_not_starve_beside_full_batches_of_what_is_in_time():
    bench = a_bench(max_requests=2, window_s=0.01)
    bench.arrive(), bench.arrive()
    late = bench.arrive(ttft_slo_s=0.01)
    bench.after(0.5)
    for _ in range(1000):
        if late in bench.sent:
            break
        while bench.scheduler.queued_total() < 5:
            bench.arrive(ttft_slo_s=5.0)
        for number in bench.order[-2:]:
            bench.finish(number, 1)
        bench.after(0.1)
    assert late in bench.sent
