import pytest

from workers.scheduling.planning.returns import Returns

pytestmark = pytest.mark.unit


def told(returns, rank=1, cost_s=2.0, wait_s=5.0, now=100.0):
    return returns.told_s(rank, cost_s, wait_s=wait_s, longest_s=60.0, now=now)


def test_each_is_told_to_come_when_those_told_before_have_been_served():
    returns = Returns()
    assert [told(returns) for _ in range(3)] == [5.0, 7.0, 9.0]


def test_who_asks_later_waits_so_much_less():
    returns = Returns()
    told(returns)
    assert told(returns, now=104.0, wait_s=0.0) == 3.0


def test_a_class_does_not_wait_for_those_below_it_but_for_those_above():
    returns = Returns()
    assert [told(returns, rank=rank) for rank in (2, 0, 2, 0)] == [5.0, 5.0, 7.0, 7.0]
    assert told(returns, rank=1) == 9.0


def test_nobody_is_told_more_than_clients_would_wait():
    returns = Returns()
    assert {told(returns, cost_s=40.0) for _ in range(2)} == {5.0, 45.0}
    assert [told(returns, cost_s=40.0) for _ in range(3)] == [60.0] * 3


def test_what_is_told_the_longest_takes_no_room_of_those_who_ask_later():
    returns = Returns()
    for _ in range(100):
        told(returns, cost_s=40.0)
    assert told(returns, now=200.0, wait_s=0.0) == 0.0


def test_what_would_take_for_ever_keeps_others_away_no_longer_than_anybody_is_told():
    returns = Returns()
    told(returns, cost_s=1e9)
    assert told(returns, now=159.0, wait_s=0.0) == 1.0
