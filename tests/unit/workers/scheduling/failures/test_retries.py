import pytest

from tests.unit.workers.scheduling.bench import Bench
from workers.scheduling.failures.retry_budget import MAX_KEYS, RetryBudgets

pytestmark = pytest.mark.unit


def fail_all(bench, count, *, tenant="t1", tokens=1000):
    """Each of `count` requests fails once; how many run a second time."""
    again = 0
    for _ in range(count):
        number = bench.arrive(tenant=tenant, prompt_tokens=tokens)
        bench.after(60.0)
        before = len(bench.order)
        bench.fail(number)
        bench.after(60.0)
        again += bench.order[before:].count(number)
        if number in bench.sent and number not in bench.rejects:
            bench.finish(number)
    return again


def test_a_tenant_may_not_try_again_more_than_its_budget():
    bench = Bench(retry_tokens_of_tenant=5_000.0, retry_share=0.0)
    bench.endpoint("e1")
    bench.endpoint("e2")
    assert fail_all(bench, 8) == 5
    assert {reject.reason for reject in bench.rejects.values()} == {"retry_budget"}
    assert fail_all(bench, 2, tenant="other") == 2


def test_a_version_has_a_budget_for_all_its_tenants():
    bench = Bench(retry_tokens_of_version=3_000.0, retry_share=0.0)
    bench.endpoint("e1")
    bench.endpoint("e2")
    assert fail_all(bench, 2, tenant="a") + fail_all(bench, 4, tenant="b") == 3


def test_what_is_answered_earns_new_tries():
    budgets = RetryBudgets(share=0.1, most_tokens=1_000.0)
    budgets.spend("t", 1_000.0)
    assert not budgets.may_spend("t", 1_000.0)
    for _ in range(10):
        budgets.earn("t", 1_000.0)
    assert budgets.may_spend("t", 1_000.0)


def test_a_request_larger_than_the_budget_is_tried_again_while_the_budget_is_full():
    budgets = RetryBudgets(share=0.1, most_tokens=1_000.0)
    assert budgets.may_spend("t", 50_000.0)
    budgets.spend("t", 50_000.0)
    assert not budgets.may_spend("t", 300.0)


def test_keys_are_bounded():
    budgets = RetryBudgets(share=0.1, most_tokens=1_000.0)
    for number in range(MAX_KEYS + 10):
        budgets.spend(f"t{number}", 300.0)
    assert len(budgets._balances) == MAX_KEYS


def test_nothing_is_tried_again_after_its_deadline():
    bench = Bench()
    bench.endpoint("e1")
    bench.endpoint("e2")
    number = bench.arrive(deadline_at=bench.now + 10)
    bench.now += 11
    bench.fail(number)
    assert (bench.rejects[number].code, bench.rejects[number].reason) == ("cannot_meet_deadline", "deadline_passed")


def test_an_engine_that_asks_for_time_gets_it():
    bench = Bench(patience_s=60.0)
    bench.endpoint("e1")
    number = bench.arrive()
    bench.fail(number, retry_after_s=20.0)
    bench.after(19.0, step=0.5)
    assert bench.order == [number]
    bench.after(2.0, step=0.5)
    assert bench.order == [number, number]


def test_an_endpoint_that_comes_and_goes_keeps_its_record():
    bench = Bench(suspend_s=1.0, max_attempts=100, patience_s=1000.0)
    number = None
    for _ in range(4):
        bench.endpoint("flaps")
        number = number or bench.arrive()
        bench.after(20.0, step=1.0)
        bench.fail(number)
        bench.scheduler.endpoint_lost("flaps", bench.now)
    bench.endpoint("flaps")
    assert bench.state("flaps").breaker == "open"
    bench.after(3.0, step=1.0)
    assert bench.order.count(number) == 4


def test_a_flapping_endpoint_costs_no_request_its_answer_while_another_works():
    bench = Bench(suspend_s=0.5)
    bench.endpoint("steady")
    answered = 0
    for _ in range(60):
        bench.endpoint("flaps")
        numbers = [bench.arrive() for _ in range(4)]
        bench.after(0.2)
        for number in numbers:
            if bench.sent.get(number) == "flaps":
                bench.fail(number)
        bench.scheduler.endpoint_lost("flaps", bench.now)
        bench.after(1.0, step=0.1)
        for number in numbers:
            assert bench.sent[number] == "steady"
            bench.finish(number)
            answered += 1
    assert answered == 240
    assert bench.rejects == {}


def test_an_answer_of_an_endpoint_that_is_gone_with_its_version_still_ends_in_order():
    bench = Bench()
    bench.endpoint("e1")
    number = bench.arrive()
    bench.scheduler.endpoint_lost("e1", bench.now)
    bench.after(1.0)
    assert bench.finish(number) == []
    assert bench.scheduler.running_total() == 0
