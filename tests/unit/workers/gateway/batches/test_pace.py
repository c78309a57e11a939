import pytest

from workers.gateway.batches.pace import MAX_IN_FLIGHT, items_to_start

pytestmark = pytest.mark.unit


def test_batches_get_half_of_what_the_engines_take():
    assert items_to_start(in_flight=0, slots=64, others_waiting=0) == 32
    assert items_to_start(in_flight=30, slots=64, others_waiting=0) == 2
    assert items_to_start(in_flight=40, slots=64, others_waiting=0) == 0


def test_an_engine_of_one_slot_is_used_too():
    assert items_to_start(in_flight=0, slots=1, others_waiting=0) == 1


def test_nothing_is_added_while_others_wait():
    assert items_to_start(in_flight=0, slots=64, others_waiting=1) == 0


def test_without_an_engine_nothing_is_started():
    assert items_to_start(in_flight=0, slots=0, others_waiting=0) == 0


def test_a_large_fleet_is_bounded():
    assert items_to_start(in_flight=0, slots=100_000, others_waiting=0) == MAX_IN_FLIGHT
