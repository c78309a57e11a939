"""Tenants pay for what their answers took, and not for what was expected of them."""

from collections import Counter
from itertools import cycle

import pytest
from msgspec import structs

from tests.unit.workers.scheduling.bench import KNOWN, Bench

pytestmark = pytest.mark.unit

STEP_S = 0.01
ROOMY = structs.replace(KNOWN, cost=structs.replace(KNOWN.cost, ms_per_ctx_token=0.0, kv_capacity_tokens=1_000_000_000))
"""A token costs the same wherever in an answer it stands."""


def answer_all(lengths, rounds, *, says_progress=False):
    """One at a time, while every tenant has some waiting: how many tokens each got."""
    bench, served, asked = Bench(), Counter(), {}
    lengths = {tenant: cycle(each) for tenant, each in lengths.items()}
    asked.update((bench.arrive(tenant=tenant), tenant) for _ in range(3) for tenant in lengths)
    bench.endpoint(slots=1, spec=ROOMY)
    for place in range(rounds):
        number = bench.order[place]
        tenant = asked[number]
        tokens = next(lengths[tenant])
        served[tenant] += 100 + tokens
        asked[bench.arrive(tenant=tenant)] = tenant
        bench.now += STEP_S
        bench.first_token(number)
        if says_progress:
            bench.progress(number, tokens)
        bench.now += tokens * STEP_S
        bench.finish(number, tokens)
    return served


@pytest.mark.parametrize("says_progress", [True, False])
def test_who_is_hard_to_predict_gets_no_more_than_who_is_not(says_progress):
    mostly_short = [20] * 9 + [870]
    served = answer_all({"even": [105], "odd": mostly_short}, 1200, says_progress=says_progress)
    assert 0.95 < served["odd"] / served["even"] < 1.05


def test_an_answer_that_is_still_going_on_is_paid_for_as_it_grows():
    bench = Bench()
    bench.endpoint(slots=2)
    long, other = bench.arrive(tenant="a"), bench.arrive(tenant="b")
    waiting = {bench.arrive(tenant=tenant): tenant for _ in range(30) for tenant in "ab"}
    bench.first_token(long)
    bench.progress(long, 2000)
    for _ in range(20):
        bench.now += 1.0
        bench.first_token(other)
        bench.finish(other)
        other = bench.order[-1]
    assert Counter(waiting[number] for number in bench.order[2:])["a"] == 0


def test_what_took_less_than_expected_is_given_back():
    bench = Bench()
    number = bench.arrive(predicted_output_tokens=5000.0)
    bench.endpoint()
    ticket = bench.scheduler._queues.tickets[number]
    expected_s = ticket.cost_s
    bench.first_token(number)
    bench.finish(number, 5)
    assert 0 < ticket.cost_s < expected_s / 10


@pytest.mark.parametrize("how", ["its client left", "its engine died"])
def test_one_that_was_not_answered_to_the_end_is_charged_for_what_it_took(how):
    bench = Bench()
    number = bench.arrive(predicted_output_tokens=5000.0)
    bench.endpoint()
    ticket = bench.scheduler._queues.tickets[number]
    expected_s = ticket.cost_s
    bench.first_token(number)
    if how == "its client left":
        bench.note(bench.scheduler.request_withdrawn(number, bench.now, 50))
    else:
        bench.fail(number, may_retry=False, generated_tokens=50)
    assert 0 < ticket.cost_s < expected_s / 100


def test_one_that_left_before_it_was_sent_is_charged_for_nothing():
    bench = Bench()
    number = bench.arrive()
    ticket = bench.scheduler._queues.tickets[number]
    queue = bench.scheduler._queues.pool_of("v1", bench.now)._queue
    before = queue.changes
    bench.note(bench.scheduler.request_withdrawn(number, bench.now, 0))
    assert (ticket.endpoint, queue.changes) == (None, before)
