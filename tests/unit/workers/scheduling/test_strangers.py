"""What a driver that is not ours may tell, leave out, or tell wrongly."""

import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec import structs

from tests.unit.workers.scheduling.bench import KNOWN, Bench
from workers.scheduling.endpoint_spec import DEFAULT_SPEC
from workers.scheduling.interface import EngineReport, Request
from workers.scheduling.scheduler import Scheduler

pytestmark = pytest.mark.unit

HOWTO = Path(__file__).parents[4] / "docs" / "howto" / "drive-the-scheduler.md"
ODD = [
    {"weight": 0.0},
    {"weight": -1.0},
    {"tenant_weight": 0.0},
    {"prefix_blocks": (1, 2, 3), "block_tokens": 0},
    {"prefix_blocks": tuple(range(100)), "block_tokens": 16},
    {"prefix_blocks": (1, 2, 3), "prompt_tokens": 0},
    {"prompt_tokens": -5, "prefix_blocks": (1, 2, 3)},
    {"prompt_tokens": 10**9},
    {"predicted_output_tokens": math.inf},
    {"predicted_output_tokens": math.nan},
    {"ttft_slo_s": 0.0, "tpot_slo_s": 0.0},
    {"ttft_slo_s": math.nan, "tpot_slo_s": math.nan},
    {"ttft_slo_s": math.inf, "tpot_slo_s": math.inf},
    {"deadline_at": -5.0},
    {"deadline_at": math.inf},
    {"rank": 7},
    {"workflow_id": "w"},
]


def test_the_example_of_the_howto_runs_and_is_answered():
    example = HOWTO.read_text().split("```python\n")[1].split("```")[0]
    names = {}
    exec(example, names)  # noqa: S102 - it is our own page
    assert names["sent"] == {1: "a"}
    assert names["refused"] == {}


def test_of_two_timers_the_one_that_was_replaced_sets_no_other():
    example = HOWTO.read_text().split("```python\n")[1].split("```")[0]
    names = {}
    exec(example, names)  # noqa: S102 - it is our own page
    names["timer_at"], names["timers"][:] = 5.0, [4.0]
    names["timer_fired"](4.0)
    assert names["timers"] == [4.0]


def test_a_deadline_that_has_passed_does_not_put_off_the_timer_that_there_is():
    example = HOWTO.read_text().split("```python\n")[1].split("```")[0]
    names = {}
    exec(example, names)  # noqa: S102 - it is our own page
    names["scheduler"] = SimpleNamespace(next_deadline=lambda: 1.0)
    names["timer_at"], names["timers"][:] = None, []
    for now in (4.0, 4.0003, 4.0006):
        names["carry_out"]([], now)
    assert names["timers"] == [pytest.approx(4.001)]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_odd_requests_under_load_are_answered_and_leave_nothing(odd):
    """Past capacity, so that prices are asked for: what is sorted by density must have one."""
    bench = Bench()
    for name in ("e1", "e2"):
        bench.endpoint(name, slots=4)
    numbers = []
    for turn in range(120):
        limits = {"ttft_slo_s": 1.0, "tpot_slo_s": 0.1} if turn % 2 else odd
        numbers.append(bench.arrive(tenant=f"t{turn % 2}", **{"prompt_tokens": 4000, **limits}))
        bench.after(0.01)
        if turn % 5 == 0:
            answer_what_runs(bench)
    while bench.scheduler.queued_total() + bench.scheduler.running_total():
        assert bench.now < 100_000.0
        bench.after(1.0)
        answer_what_runs(bench)
    assert set(numbers) == set(bench.sent) | set(bench.rejects)


def answer_what_runs(bench):
    for number in [sent for sent in bench.sent if sent in bench.scheduler._queues.tickets]:
        bench.first_token(number)
        bench.finish(number)


def test_what_is_told_of_a_request_that_has_ended_changes_nothing():
    bench = Bench()
    bench.endpoint()
    number = bench.arrive()
    bench.finish(number)
    told = bench.first_token(number) + bench.progress(number) + bench.finish(number) + bench.fail(number)
    assert told + bench.scheduler.request_withdrawn(number, bench.now) == []
    assert bench.scheduler.running_total() == bench.scheduler.queued_total() == 0


def test_an_answer_that_comes_although_the_request_waits_again_ends_it():
    bench = Bench()
    bench.endpoint()
    number = bench.arrive()
    bench.fail(number)
    assert bench.scheduler.queued_total() == 1
    bench.finish(number)
    assert bench.scheduler.queued_total() == 0
    bench.after(10.0, step=0.5)
    assert bench.order == [number]


def test_what_is_told_of_an_endpoint_that_is_gone_changes_nothing():
    bench = Bench()
    bench.endpoint()
    assert bench.scheduler.endpoint_lost("e1", bench.now) == []
    assert bench.scheduler.endpoint_lost("e1", bench.now) == []
    told = bench.report() + bench.scheduler.drain_started("e1", bench.now)
    assert told + bench.scheduler.prefixes_changed("e1", [], bench.now) == []


def test_an_endpoint_that_comes_with_another_version_serves_that_one():
    bench = Bench()
    bench.endpoint(version="v1")
    bench.endpoint(version="v2")
    old, new = bench.arrive(version="v1"), bench.arrive(version="v2")
    assert bench.sent == {new: "e1"}
    assert old not in bench.rejects


def test_a_report_from_the_future_is_as_old_as_any_other_after_two_seconds():
    bench = Bench()
    bench.endpoint()
    running = bench.arrive()
    bench.first_token(running)
    bench.report(taken_at=bench.now + 1e9, kv_usage=1.0)
    held = bench.arrive()
    assert held not in bench.sent
    bench.report(taken_at=bench.now + 0.1, kv_usage=0.1)
    bench.after(0.1)
    assert held in bench.sent


def test_an_engine_that_counts_what_it_only_keeps_cached_is_not_full_for_ever():
    bench = Bench()
    bench.endpoint()
    bench.first_token(bench.arrive(predicted_output_tokens=1000.0))
    waiting = None
    for _ in range(30):
        bench.after(0.25)
        bench.report(kv_usage=0.98)
        if waiting is None:
            waiting = bench.arrive()
            assert waiting not in bench.sent
    assert waiting in bench.sent


def test_an_engine_that_others_use_as_well_is_believed_to_be_full():
    bench = Bench()
    bench.endpoint()
    bench.first_token(bench.arrive(predicted_output_tokens=1000.0))
    for _ in range(30):
        bench.after(0.25)
        report = EngineReport(taken_at=bench.now, running=40, waiting=2, kv_usage=0.98)
        bench.note(bench.scheduler.endpoint_reported("e1", report, bench.now))
    assert bench.arrive() not in bench.sent


@pytest.mark.parametrize("field", ["max_batched_tokens", "max_sequences"])
def test_an_endpoint_of_no_size_at_all_does_no_harm(field):
    bench = Bench()
    bench.endpoint(spec=structs.replace(KNOWN, **{field: 0}))
    bench.endpoint("e2")
    assert bench.arrive() in bench.sent


def test_an_endpoint_without_a_cache_does_no_harm():
    bench = Bench()
    bench.endpoint(spec=structs.replace(KNOWN, cost=structs.replace(KNOWN.cost, kv_capacity_tokens=0)))
    assert bench.arrive() in bench.sent


def test_without_costs_the_pace_of_the_answers_says_whether_steps_are_too_long():
    """The stand-in's full step is longer than the limit; the engine's answers have shown that its own are not."""
    bench = Bench()
    bench.endpoint(spec=DEFAULT_SPEC)
    endpoint = bench.scheduler._endpoints["e1"]
    for _ in range(8):
        number = bench.arrive(prompt_tokens=1000, tpot_slo_s=0.02)
        bench.after(0.02)
        bench.first_token(number)
        bench.after(0.5)
        bench.finish(number, tokens=51)
    assert endpoint.full_s > 0.02 > endpoint.pace.step_s
    bench.arrive(prompt_tokens=20_000, tpot_slo_s=0.02)
    assert endpoint.paused_until < bench.now


def test_who_names_no_config_gets_the_usual_one():
    scheduler = Scheduler()
    scheduler.endpoint_updated("e1", "v", 8, 0.0, is_draining=False)
    requests = [
        Request(request_id=number, version_id="v", tenant_id="t", rank=0, max_queued_of_tenant=9, arrived_at=0.0)
        for number in (1, 2)
    ]
    commands = [command for request in requests for command in scheduler.request_arrived(request, 0.0)]
    assert [command.request_id for command in commands] == [1, 2]
    assert all(first.endpoint_id == second.endpoint_id for first, second in pairwise(commands))
