"""Calls of a workflow are one program: ordered together, with one budget, cut off together."""

import pytest

from tests.unit.workers.scheduling.bench import Bench
from workers.scheduling.interface import Request
from workers.scheduling.workflows import Workflows

pytestmark = pytest.mark.unit


def test_calls_past_the_token_budget_are_refused_and_running_ones_cancelled():
    bench = Bench()
    bench.endpoint()
    budget = {"workflow_id": "w", "workflow_tokens": 1000}
    first, second = bench.arrive(prompt_tokens=400, **budget), bench.arrive(prompt_tokens=400, **budget)
    bench.finish(first, 700)
    assert bench.cancels == {second: "workflow_budget"}
    third = bench.arrive(prompt_tokens=10, **budget)
    assert (bench.rejects[third].code, bench.rejects[third].reason) == ("cannot_meet_deadline", "workflow_budget")
    assert bench.scheduler.workflow_waste().workflows == 1
    assert bench.scheduler.workflow_waste().tokens == 1100
    bench.note(bench.scheduler.request_withdrawn(second, bench.now, 30))
    assert bench.scheduler.workflow_waste().tokens == 1530


def test_what_clients_took_before_they_left_counts_against_the_budget():
    bench = Bench()
    bench.endpoint()
    budget = {"workflow_id": "w", "workflow_tokens": 1000, "prompt_tokens": 100}
    bench.note(bench.scheduler.request_withdrawn(bench.arrive(**budget), bench.now, 450))
    assert bench.arrive(**budget) in bench.sent
    bench.fail(bench.number, may_retry=False, generated_tokens=300)
    assert bench.arrive(**budget) in bench.rejects


def test_a_money_budget_counts_what_tokens_cost():
    bench = Bench()
    bench.endpoint()
    budget = {
        "workflow_id": "w", "workflow_picodollars": 1_000_000, "picodollars_per_input_token": 1000,
        "picodollars_per_output_token": 4000,
    }  # fmt: skip
    bench.finish(bench.arrive(prompt_tokens=100, **budget), 200)
    assert bench.arrive(prompt_tokens=50, **budget) in bench.sent
    assert bench.arrive(prompt_tokens=200, **budget) in bench.rejects


def test_a_call_that_alone_exceeds_the_budget_never_starts():
    bench = Bench()
    bench.endpoint()
    assert bench.arrive(prompt_tokens=5000, workflow_id="w", workflow_tokens=1000) in bench.rejects


def test_workflows_of_two_tenants_with_one_id_do_not_meet():
    bench = Bench()
    bench.endpoint()
    assert bench.arrive(tenant="a", prompt_tokens=5000, workflow_id="w", workflow_tokens=1000) in bench.rejects
    assert bench.arrive(tenant="b", prompt_tokens=500, workflow_id="w", workflow_tokens=1000) in bench.sent


def test_one_that_cannot_be_in_time_even_alone_is_cut_off_before_its_deadline():
    bench = Bench()
    bench.endpoint(slots=1)
    deadline = {"workflow_id": "w", "deadline_at": bench.now + 3.0}
    running = bench.arrive(prompt_tokens=100, **deadline)
    waiting = bench.arrive(prompt_tokens=150_000, **deadline)
    bench.after(0.5)
    assert bench.rejects[waiting].reason == "workflow_deadline"
    assert bench.cancels == {running: "workflow_deadline"}
    assert bench.now < deadline["deadline_at"]


def test_the_program_that_has_had_less_service_goes_first():
    bench = Bench()
    bench.endpoint(slots=1)
    for _ in range(30):
        bench.finish(bench.arrive(prompt_tokens=20_000, workflow_id="old"), 500)
    bench.arrive()
    old, new = bench.arrive(workflow_id="old"), bench.arrive(workflow_id="new")
    bench.finish(bench.order[-1])
    assert bench.order[-1] == new
    bench.finish(new)
    assert bench.order[-1] == old


def test_the_steps_that_the_client_expects_count_before_what_was_learned():
    workflows = Workflows()

    def call(number, steps):
        return Request(
            request_id=number, version_id="v", tenant_id="t", rank=0, max_queued_of_tenant=9, arrived_at=0.0,
            workflow_id="w", workflow_steps=steps,
        )  # fmt: skip

    for number in range(200):
        workflows.arrived(call(number, 0), now=2.0 * number)
    following = call(1000, 210)
    assert workflows.expected_rest_s(following) == pytest.approx(20.0, rel=0.05)
    assert workflows.expected_rest_s(call(1001, 0)) == 0.0


def test_a_calls_own_deadline_is_not_its_workflows():
    bench = Bench()
    bench.endpoint()
    first = bench.arrive(workflow_id="w", deadline_at=bench.now + 1.0, workflow_deadline_at=0.0)
    bench.finish(first)
    second = bench.arrive(workflow_id="w", deadline_at=bench.now + 60.0, workflow_deadline_at=0.0)
    bench.after(2.0)
    third = bench.arrive(workflow_id="w")
    bench.after(1.0)
    assert bench.cancels == bench.rejects == {}
    assert bench.order == [first, second, third]


def test_a_call_that_misses_its_own_deadline_takes_no_other_with_it():
    bench = Bench()
    bench.endpoint(slots=1)
    whole = {"workflow_id": "w", "workflow_deadline_at": bench.now + 600.0}
    running = bench.arrive(deadline_at=bench.now + 600.0, **whole)
    waiting = bench.arrive(deadline_at=bench.now + 1.0, **whole)
    bench.after(2.0)
    assert bench.rejects[waiting].reason == "deadline_passed"
    assert bench.cancels == {}
    bench.after(600.0)
    assert bench.cancels == {running: "workflow_deadline"}


def test_a_later_call_may_bring_the_workflows_deadline():
    bench = Bench()
    bench.endpoint()
    first = bench.arrive(workflow_id="w")
    second = bench.arrive(workflow_id="w", deadline_at=bench.now + 5.0)
    bench.after(6.0)
    assert bench.cancels == dict.fromkeys((first, second), "workflow_deadline")
