import pytest

from tests.unit.workers.scheduling.bench import Bench

pytestmark = pytest.mark.unit


def test_an_engine_whose_counters_stand_still_while_it_has_work_is_suspected():
    bench = Bench(stall_after_s=30.0)
    bench.endpoint("e1")
    first = bench.arrive()
    for _ in range(40):
        bench.after(1.0)
        bench.report(steps_total=500.0)
    assert [(s.endpoint_id, s.request_ids) for s in bench.suspects] == [("e1", (first,))]
    assert bench.state().is_stalled
    bench.endpoint("e2")
    assert bench.sent[bench.arrive()] == "e2"


def test_what_it_held_runs_elsewhere():
    bench = Bench(stall_after_s=30.0)
    bench.endpoint("e1")
    number = bench.arrive()
    bench.endpoint("e2")
    for _ in range(40):
        bench.after(1.0)
        bench.report(steps_total=500.0)
        if bench.suspects:
            break
    bench.fail(number)
    assert bench.sent[number] == "e2"


def test_a_busy_engine_is_never_suspected_however_long_its_prompt_takes():
    bench = Bench(stall_after_s=30.0)
    bench.endpoint("e1")
    bench.arrive(prompt_tokens=1_000_000)
    for second in range(1000):
        bench.after(1.0)
        bench.report(steps_total=float(second))
    assert bench.suspects == []


def test_tokens_that_come_are_progress_whatever_the_counters_say():
    bench = Bench(stall_after_s=30.0)
    bench.endpoint("e1")
    number = bench.arrive()
    bench.first_token(number)
    for second in range(200):
        bench.after(1.0)
        bench.progress(number, second)
        bench.report(steps_total=500.0)
    assert bench.suspects == []


def test_reports_whose_clock_stands_still_are_no_evidence():
    bench = Bench(stall_after_s=30.0)
    bench.endpoint("e1")
    bench.arrive()
    for _ in range(200):
        bench.after(1.0)
        bench.report(taken_at=100.0, steps_total=500.0)
    assert bench.suspects == []


def test_without_counters_silence_takes_ten_times_as_long():
    bench = Bench(stall_after_s=30.0)
    bench.endpoint("e1")
    bench.arrive()
    bench.after(250.0, step=5.0)
    assert bench.suspects == []
    bench.after(100.0, step=5.0)
    assert len(bench.suspects) == 1


def test_the_driver_is_told_to_tick_although_nobody_waits():
    bench = Bench(stall_after_s=30.0)
    bench.endpoint("e1")
    assert bench.scheduler.next_deadline() is None
    number = bench.arrive()
    assert bench.now < bench.scheduler.next_deadline() <= bench.now + 30.0
    bench.finish(number)
    assert bench.scheduler.next_deadline() is None


def test_an_idle_engine_is_not_suspected_and_its_idleness_does_not_count():
    bench = Bench(stall_after_s=30.0)
    bench.endpoint("e1")
    for _ in range(100):
        bench.after(1.0)
        bench.report(steps_total=500.0)
    bench.arrive()
    bench.after(1.0)
    bench.report(steps_total=500.0)
    assert bench.suspects == []


def test_a_single_probe_shows_that_it_works_again():
    bench = Bench(stall_after_s=30.0, suspend_s=1.0)
    bench.endpoint("e1")
    stuck = bench.arrive()
    for _ in range(35):
        bench.after(1.0)
        bench.report(steps_total=500.0)
    assert bench.suspects
    bench.fail(stuck, may_retry=False)
    bench.after(60.0)
    probe, next_one = bench.arrive(), bench.arrive()
    assert bench.sent[probe] == "e1"
    assert next_one not in bench.sent
    bench.first_token(probe)
    assert bench.sent[next_one] == "e1"
    assert not bench.state().is_stalled


def test_an_engine_that_stands_still_is_given_nothing_more_long_before_it_is_suspected():
    bench = Bench(stall_after_s=30.0)
    bench.endpoint("e1")
    bench.endpoint("e2")
    held = [bench.arrive(), bench.arrive()]
    for second in range(4):
        bench.after(1.0)
        bench.report("e1", steps_total=500.0)
        bench.report("e2", steps_total=float(second))
    assert {bench.sent[bench.arrive()] for _ in range(6)} == {"e2"}
    assert {bench.sent[number] for number in held} == {"e1", "e2"}
    assert bench.suspects == []


def test_it_is_given_work_again_as_soon_as_it_moves():
    bench = Bench(stall_after_s=30.0)
    bench.endpoint("e1")
    bench.arrive()
    for _ in range(4):
        bench.after(1.0)
        bench.report(steps_total=500.0)
    waiting = bench.arrive()
    assert waiting not in bench.sent
    bench.after(0.5)
    bench.report(steps_total=501.0)
    bench.after(0.5)
    assert waiting in bench.sent
