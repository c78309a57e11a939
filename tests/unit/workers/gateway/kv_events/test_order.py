"""An engine's batches in order: what is missing is asked for again, and what began again is seen."""

import pytest

from workers.gateway.kv_events.order import Order, RestartedError

pytestmark = pytest.mark.unit


def payload(number, engine="a"):
    return f"{engine}{number}".encode()


def published(order, *numbers, engine="a"):
    return [each for number in numbers for each in order.published(number, payload(number, engine))]


def replayed(order, *numbers, engine="a"):
    return [each for number in numbers for each in order.replayed(number, payload(number, engine))]


def test_what_comes_in_order_may_be_applied_at_once():
    order = Order()
    assert published(order, 0, 1, 2) == [b"a0", b"a1", b"a2"]
    assert (order.has_gap, order.is_complete) == (False, True)


def test_what_comes_ahead_waits_for_what_is_missing():
    order = Order()
    assert published(order, 0, 3) == [b"a0"]
    assert order.has_gap
    assert order.ask_from() == 0, "the last that came, to see that it is the same engine"
    assert replayed(order, 0, 1, 2, 3) == [b"a1", b"a2", b"a3"]
    assert order.replay_ended() is False
    assert order.is_complete


def test_what_comes_while_it_is_asked_for_is_not_applied_twice():
    order = Order()
    order.ask_from()
    assert replayed(order, 0) == [b"a0"]
    assert published(order, 2, 3) == []
    assert replayed(order, 1, 2, 3) == [b"a1", b"a2", b"a3"]
    assert replayed(order, 1, 2) == []


def test_what_the_engine_has_not_kept_is_given_up_and_known_to_be():
    order = Order()
    order.ask_from()
    assert replayed(order, 7, 8) == []
    assert order.replay_ended() is False
    assert list(order.drain()) == [b"a7", b"a8"]
    assert (order.is_complete, order.gaps) == (False, 1)


def test_a_gap_that_closes_in_part_is_asked_for_once_more():
    order = Order()
    published(order, 0, 9)
    order.ask_from()
    replayed(order, 0, 1, 2, 3)
    assert order.replay_ended() is True
    assert order.ask_from() == 3


@pytest.mark.parametrize("comes", [published, replayed])
def test_numbers_that_begin_again_are_another_engine(comes):
    order = Order()
    published(order, 0, 1, 2)
    number = 0 if comes is published else order.ask_from()
    with pytest.raises(RestartedError):
        comes(order, number, engine="b")


def test_an_engine_that_has_come_to_fewer_is_another_one():
    order = Order()
    published(order, 0, 1, 2)
    order.ask_from()
    with pytest.raises(RestartedError):
        order.replay_ended()


def test_what_was_known_before_a_restart_of_ours_goes_on_from_there():
    before = Order()
    published(before, 0, 1, 2)
    order = Order(before.next_number, before.last_digest)
    assert order.ask_from() == 2
    assert replayed(order, 2, 3) == [b"a3"]
    assert order.replay_ended() is False
    assert order.is_complete


def test_the_same_engine_is_known_again():
    order = Order()
    published(order, 0, 1, 2)
    assert order.ask_from() == 2
    assert replayed(order, 2, 3) == [b"a3"]
