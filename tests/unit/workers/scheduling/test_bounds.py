"""Queues are bounded in requests and in tokens, per tenant and in all; who fills them is refused first."""

import pytest

from tests.unit.workers.scheduling.bench import Bench

pytestmark = pytest.mark.unit


def a_busy_bench(**config):
    bench = Bench(**config)
    bench.endpoint(slots=1)
    bench.arrive()
    return bench


def test_a_tenant_may_not_queue_more_tokens_than_its_bound():
    bench = a_busy_bench()
    first = bench.arrive(prompt_tokens=900, predicted_output_tokens=50.0, max_queued_tokens_of_tenant=1000.0)
    second = bench.arrive(prompt_tokens=100, predicted_output_tokens=50.0, max_queued_tokens_of_tenant=1000.0)
    other = bench.arrive(prompt_tokens=900, tenant="other", max_queued_tokens_of_tenant=1000.0)
    assert list(bench.rejects) == [second]
    assert bench.rejects[second].code == "queue_full"
    assert bench.scheduler.queued_total() == 2
    assert first not in bench.rejects
    assert other not in bench.rejects


def test_the_queue_as_a_whole_is_bounded_in_tokens():
    bench = a_busy_bench(max_queued_tokens=10_000.0)
    for _ in range(100):
        bench.arrive(prompt_tokens=1000)
    assert bench.scheduler.queued_total() == 9
    assert len(bench.rejects) == 91


def test_tokens_are_free_again_when_requests_leave_the_queue():
    bench = a_busy_bench(max_queued_tokens=10_000.0)
    waiting = [bench.arrive(prompt_tokens=1000) for _ in range(9)]
    for number in waiting:
        bench.note(bench.scheduler.request_withdrawn(number, bench.now))
    assert bench.scheduler.queued_total() == 0
    more = [bench.arrive(prompt_tokens=1000) for _ in range(9)]
    assert not set(more) & set(bench.rejects)


def test_a_tenant_that_fills_the_queue_makes_room_for_one_that_does_not():
    bench = a_busy_bench(max_queued_requests=20)
    flood = [bench.arrive(tenant="flood") for _ in range(50)]
    quiet = [bench.arrive(tenant="quiet") for _ in range(5)]
    assert not set(quiet) & set(bench.rejects)
    assert bench.scheduler.queued_total() == 20
    assert bench.rejects.keys() <= set(flood)
    assert flood[1] not in bench.rejects, "what came first stays"


def test_its_lowest_class_goes_first():
    bench = a_busy_bench(max_queued_requests=20)
    high = [bench.arrive(tenant="flood", rank=0) for _ in range(10)]
    low = [bench.arrive(tenant="flood", rank=2) for _ in range(10)]
    bench.arrive(tenant="quiet")
    assert list(bench.rejects) == [low[-1]]
    assert not set(high) & set(bench.rejects)


def test_nothing_that_has_begun_to_stream_is_refused_for_room():
    bench = Bench(max_queued_requests=3, patience_s=1e6)
    bench.endpoint()
    begun = [bench.arrive(tenant="flood") for _ in range(3)]
    for number in begun:
        bench.first_token(number)
    bench.scheduler.endpoint_lost("e1", bench.now)
    for number in begun:
        bench.fail(number, generated_tokens=5)
    newcomer = bench.arrive(tenant="quiet")
    assert list(bench.rejects) == [newcomer]


def test_a_long_wait_is_no_reason_to_refuse_when_the_endpoint_pauses_for_a_moment():
    bench = Bench(patience_s=15.0, suspend_s=1.0)
    bench.endpoint(slots=1)
    running, waiting = bench.arrive(), bench.arrive()
    bench.after(100.0, step=1.0)
    bench.fail(running, may_retry=False)
    bench.after(0.5)
    assert bench.rejects == {}
    bench.after(1.0)
    assert bench.sent[waiting] == "e1"


def test_patience_with_a_request_begins_anew_when_its_attempt_has_failed():
    bench = Bench(patience_s=15.0, suspend_s=1.0)
    bench.endpoint()
    streamed = bench.arrive()
    bench.first_token(streamed)
    bench.now += 100.0
    bench.fail(streamed, generated_tokens=7)
    bench.after(0.5, step=0.02)
    assert bench.rejects == {}
    bench.after(1.0, step=0.02)
    assert bench.order == [streamed, streamed]


def test_what_came_and_went_since_a_report_takes_no_room_and_what_has_begun_since_does():
    """Short answers would fill an engine that is asked each two seconds, long ones would be overlooked."""
    bench = Bench()
    bench.endpoint()
    endpoint = bench.scheduler._endpoints["e1"]
    bench.report(kv_usage=0.5)
    before = endpoint.kv_used(bench.now)
    for _ in range(50):
        bench.finish(bench.arrive(prompt_tokens=5000))
    assert endpoint.kv_used(bench.now) == pytest.approx(before)
    bench.now += 0.1
    number = bench.arrive(prompt_tokens=5000)
    bench.first_token(number)
    bench.report(kv_usage=0.5, taken_at=bench.now - 0.05)
    assert endpoint.kv_used(bench.now) >= before + 5000
