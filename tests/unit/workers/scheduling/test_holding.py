"""Slots that are held back for higher classes."""

import pytest
from msgspec import structs

from tests.unit.workers.scheduling.bench import KNOWN, Bench

pytestmark = pytest.mark.unit

FEW = structs.replace(KNOWN, max_sequences=4)


def answer_some(bench, *, rank, count=20, every_s=0.5, answer_s=1.0):
    """So that it is known how often a class asks, and for how long."""
    for _ in range(count):
        number = bench.arrive(rank=rank)
        bench.after(answer_s / 10)
        bench.first_token(number)
        bench.after(answer_s)
        bench.finish(number)
        bench.after(every_s)


def arrive_many(bench, *, rank, count=10, **more):
    numbers = []
    for _ in range(count):
        numbers.append(bench.arrive(rank=rank, **more))
        bench.after(0.1)
        if numbers[-1] in bench.sent:
            bench.first_token(numbers[-1])
    return [number for number in numbers if number in bench.sent]


def test_a_low_class_leaves_slots_to_a_higher_one_that_asks_now_and_then():
    bench = Bench()
    bench.endpoint(spec=FEW)
    answer_some(bench, rank=0)
    low = arrive_many(bench, rank=2)
    assert 1 <= len(low) < 4
    assert len(arrive_many(bench, rank=0)) == 4 - len(low)


def test_it_has_its_own_share_however_often_they_ask():
    bench = Bench()
    bench.endpoint(spec=FEW)
    answer_some(bench, rank=0, count=60, every_s=0.0, answer_s=0.5)
    assert len(arrive_many(bench, rank=1)) >= 1


def test_what_the_higher_class_uses_already_is_not_held_back_again():
    bench = Bench()
    bench.endpoint(spec=FEW)
    answer_some(bench, rank=0, every_s=0.2)
    high = arrive_many(bench, rank=0, count=3)
    assert len(high) == 3
    assert len(arrive_many(bench, rank=2)) == 1


def test_nothing_is_held_back_where_only_one_class_asks():
    bench = Bench()
    bench.endpoint(spec=FEW)
    answer_some(bench, rank=2)
    assert len(arrive_many(bench, rank=2)) == 4


def test_what_has_not_asked_for_long_is_forgotten():
    bench = Bench()
    bench.endpoint(spec=FEW)
    answer_some(bench, rank=0)
    bench.after(200.0)
    assert len(arrive_many(bench, rank=2)) == 4


def test_the_reason_is_told_and_passes_with_time():
    bench = Bench()
    bench.endpoint(spec=FEW)
    answer_some(bench, rank=0)
    arrive_many(bench, rank=2)
    waiting = bench.scheduler.queued_total()
    assert [verdict[-1] for verdict in bench.scheduler._queues.pools["v1"].fleet.considered()] == ["held back"]
    bench.after(200.0, step=0.5)
    assert bench.scheduler.queued_total() < waiting


ENDLESS = {"predicted_output_tokens": 2000.0}


def fill_up(bench, *, rank, count=40, **more):
    numbers = [bench.arrive(rank=rank, **(more or ENDLESS)) for _ in range(count)]
    bench.after(2.0)
    return [number for number in numbers if number in bench.sent]


def fleet_of_few(endpoints):
    bench = Bench()
    for number in range(endpoints):
        bench.endpoint(f"e{number}", spec=FEW)
    return bench


def test_long_work_of_the_lowest_class_leaves_a_slot_in_eight_to_who_has_not_asked_yet():
    bench = fleet_of_few(4)
    assert len(fill_up(bench, rank=2)) == 16 - 2
    first = [bench.arrive(rank=0) for _ in range(2)]
    bench.after(0.1)
    assert set(first) <= set(bench.sent)


def test_a_large_fleet_leaves_four_slots_and_one_of_less_than_eight_none():
    large, small = fleet_of_few(16), fleet_of_few(1)
    assert len(fill_up(large, rank=2, count=100)) == 64 - 4
    assert len(fill_up(small, rank=2)) == 4


def test_other_classes_and_short_work_take_every_slot():
    standard, short = fleet_of_few(4), fleet_of_few(4)
    assert len(fill_up(standard, rank=1)) == 16
    assert len(fill_up(short, rank=2, predicted_output_tokens=5.0)) == 16


def test_late_work_of_a_high_class_takes_the_slots_that_are_held_back_from_a_low_one():
    """Long work of batch leaves four. Of six of gold two come too late, and need not wait until batch is answered."""
    bench = Bench()
    bench.endpoint(spec=structs.replace(KNOWN, max_sequences=64))
    arrive_many(bench, rank=2, count=40, predicted_output_tokens=1500.0, ttft_slo_s=30.0)
    arrive_many(bench, rank=2, count=40, predicted_output_tokens=1500.0, ttft_slo_s=30.0)
    assert len(bench.sent) == 60
    gold = arrive_many(bench, rank=0, count=4, ttft_slo_s=0.5)
    late = [bench.arrive(rank=0, ttft_slo_s=0.5) for _ in range(2)]
    bench.after(0.9, step=0.02)
    assert len(bench.sent) == 64
    for number in gold:
        bench.finish(number)
    for number in late:
        bench.after(0.1, step=0.02)
        bench.first_token(number)
    assert set(late) <= set(bench.sent)
    assert bench.rejects == {}
