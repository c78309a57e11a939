"""Late work of a class beside what other classes still have in time."""

import pytest

from tests.unit.workers.scheduling.bench import Bench
from workers.scheduling.endpoint_spec import DEFAULT_SPEC

pytestmark = pytest.mark.unit

GOLD, BATCH = 0, 2


def busy_bench():
    """One request at a time; the load is above what lets late work run beside what is in time."""
    bench = Bench()
    bench.endpoint(slots=1)
    bench.arrive(tenant="batch", rank=BATCH, ttft_slo_s=600.0)
    return bench


def serve(bench, requests, seconds=0.1):
    for _ in range(requests):
        number = bench.order[-1]
        bench.now += seconds
        bench.first_token(number)
        bench.finish(number)
        bench.after(0.001)


def test_high_class_work_that_came_too_late_does_not_wait_for_all_low_class_work_in_time():
    bench = busy_bench()
    for _ in range(200):
        bench.arrive(tenant="batch", rank=BATCH, ttft_slo_s=600.0)
    late = [bench.arrive(tenant="gold", rank=GOLD, ttft_slo_s=0.05) for _ in range(3)]
    bench.after(0.1, step=0.02)
    serve(bench, 10)
    assert all(number in bench.sent for number in late)


def test_late_work_of_the_lowest_class_gets_its_share_beside_higher_work_in_time():
    bench = busy_bench()
    late = bench.arrive(tenant="batch", rank=BATCH, ttft_slo_s=0.05)
    bench.after(0.1, step=0.02)
    for _ in range(100):
        bench.arrive(tenant="gold", rank=GOLD, ttft_slo_s=600.0)
    serve(bench, 10)
    assert late in bench.sent


def test_of_its_own_class_what_is_in_time_goes_first():
    bench = busy_bench()
    late = bench.arrive(tenant="gold", rank=GOLD, ttft_slo_s=0.05)
    bench.after(0.1, step=0.02)
    for _ in range(100):
        bench.arrive(tenant="gold", rank=GOLD, ttft_slo_s=600.0)
    serve(bench, 40)
    assert late not in bench.sent


def test_late_work_does_not_wait_for_an_engine_that_runs_nothing():
    """However much is asked for, as is believed of an engine whose steps were slow: else it never learns otherwise."""
    bench = busy_bench()
    late = [bench.arrive(tenant="gold", rank=GOLD, prompt_tokens=20_000, ttft_slo_s=0.05) for _ in range(40)]
    bench.after(0.1, step=0.02)
    serve(bench, 20)
    assert bench.sent.keys() >= set(late[:19])


def test_late_work_that_was_sent_failed_and_is_late_again_is_given_up_once():
    bench = Bench()
    bench.endpoint(slots=1)
    first = bench.arrive(tenant="flood", rank=GOLD, ttft_slo_s=600.0)
    late = bench.arrive(tenant="gold", rank=GOLD, ttft_slo_s=0.05)
    bench.after(0.1, step=0.02)
    bench.first_token(first)
    bench.finish(first)
    assert late in bench.sent
    bench.arrive(tenant="flood", rank=GOLD, ttft_slo_s=600.0)
    bench.fail(late)
    for _ in range(400):
        bench.arrive(tenant="flood", rank=GOLD, prompt_tokens=20_000, ttft_slo_s=5.0)
        bench.after(0.2)
    assert late in bench.rejects


def test_late_work_that_is_judged_again_is_given_up_once():
    """An endpoint of unknown speed joined: once it is known, all that waits is looked at with it."""
    bench = Bench()
    bench.endpoint(slots=1)
    running = bench.arrive()
    for _ in range(60):
        for _ in range(5):
            bench.arrive(ttft_slo_s=0.5, prompt_tokens=5000)
        bench.after(0.1)
    bench.endpoint("e2", slots=1, spec=DEFAULT_SPEC)
    for _ in range(12):
        bench.arrive()
        bench.now += 0.3
        for number, endpoint_id in list(bench.sent.items()):
            if endpoint_id == "e2":
                bench.first_token(number)
                bench.finish(number)
        bench.after(0.02)
    for _ in range(60):
        for _ in range(5):
            bench.arrive(ttft_slo_s=0.5, prompt_tokens=5000)
        bench.after(0.1)
    assert running not in bench.rejects
    assert len(bench.rejects) > 200


def test_where_nothing_can_be_in_time_nothing_stands_idle_for_what_could_be():
    """Prompts of a good second each, eight at a time: far past capacity."""
    bench = Bench()
    for number in range(1, 5):
        bench.endpoint(f"e{number}")
    for _ in range(20):
        for _ in range(8):
            bench.arrive(prompt_tokens=20_000, ttft_slo_s=0.01)
        bench.after(1.0, step=0.05)
        for endpoint in bench.scheduler._endpoints.values():
            for ticket in list(endpoint.prefilling.values()):
                bench.first_token(ticket.request.request_id)
                bench.finish(ticket.request.request_id)
    bench.after(0.05)
    assert all(endpoint.running for endpoint in bench.scheduler._endpoints.values())


def test_where_some_can_be_in_time_late_work_leaves_them_half_of_the_fleet():
    bench = Bench()
    for number in range(1, 5):
        bench.endpoint(f"e{number}")
    for _ in range(100):
        for _ in range(30):
            bench.arrive(ttft_slo_s=0.5)
        bench.after(0.2)
        for number in list(bench.sent):
            if number in bench.scheduler._queues.tickets:
                bench.first_token(number)
                bench.finish(number)
    late = [bench.arrive(prompt_tokens=20_000, ttft_slo_s=0.01) for _ in range(8)]
    bench.after(0.05)
    assert len(set(late) & set(bench.sent)) == 2
