import pytest

from workers.scheduling.failures.breaker import CALM_S, Breaker

pytestmark = pytest.mark.unit


def a_breaker():
    return Breaker(first_pause_s=1.0, max_pause_s=30.0)


def test_one_failure_is_a_short_pause_and_no_probe_is_needed_after_it():
    breaker = a_breaker()
    breaker.failed(1, now=0.0)
    assert breaker.state(0.5) == "paused"
    assert breaker.opens_at() == 1.0
    assert breaker.state(1.5) == "closed"
    breaker.sent(2)
    assert breaker.opens_at() <= 1.5


def test_a_success_ends_a_pause():
    breaker = a_breaker()
    breaker.failed(1, now=0.0)
    breaker.answered(2, now=0.2)
    assert breaker.opens_at() <= 0.2


def an_open_breaker():
    breaker = a_breaker()
    for number, now in ((1, 0.0), (2, 2.0), (3, 5.0)):
        breaker.failed(number, now)
    assert breaker.state(5.1) == "open"
    return breaker


def test_three_failures_in_a_row_open_it_and_a_single_probe_closes_it():
    breaker = an_open_breaker()
    now = breaker.opens_at() + 0.1
    assert breaker.state(now) == "half_open"
    breaker.sent(4)
    assert breaker.opens_at() == float("inf")
    breaker.answered(99, now)
    assert breaker.state(now) == "half_open", "an old answer is no verdict"
    breaker.answered(4, now)
    assert breaker.state(now) == "closed"
    assert breaker.opens_at() <= now


def test_a_probe_that_fails_opens_it_for_longer():
    breaker = an_open_breaker()
    first_pause_s = breaker.opens_at() - 5.0
    now = breaker.opens_at() + 0.1
    breaker.sent(4)
    breaker.failed(4, now)
    assert breaker.opens_at() - now > first_pause_s


def test_a_probe_that_is_withdrawn_makes_room_for_the_next():
    breaker = an_open_breaker()
    breaker.sent(4)
    breaker.withdrawn(4)
    assert breaker.opens_at() < 60.0


def test_all_that_fails_with_one_outage_counts_once():
    breaker = a_breaker()
    for number in range(200):
        breaker.failed(number, now=0.0)
    assert breaker.opens_at() == 1.0


def test_an_engine_that_fails_every_other_request_is_found_by_its_share():
    breaker = a_breaker()
    now = 0.0
    for number in range(0, 20, 2):
        breaker.answered(number, now)
        breaker.failed(number + 1, now)
        now += 5.0
    assert breaker.state(breaker.opened_until - 0.1) == "open"


def test_what_the_engine_asks_for_is_honoured_and_is_no_failure():
    breaker = a_breaker()
    breaker.failed(1, now=0.0, retry_after_s=7.0)
    breaker.answered(2, now=1.0)
    assert breaker.opens_at() == 7.0
    breaker.failed(3, now=8.0)
    assert breaker.opens_at() == 9.0, "the first failure, not the second"


def test_an_absurd_retry_after_is_bounded():
    breaker = a_breaker()
    breaker.failed(1, now=0.0, retry_after_s=1e9)
    assert breaker.opens_at() <= 300.0


def test_one_that_flaps_keeps_its_long_pauses_until_it_has_been_calm():
    breaker = an_open_breaker()
    pauses, now = [], 5.0
    for number in range(10, 13):
        now = breaker.opens_at() + 0.1
        breaker.sent(number)
        breaker.answered(number, now)
        for failure in range(3):
            breaker.failed(number * 100 + failure, now)
            now = breaker.opens_at() + 0.01 if failure < 2 else now
        pauses.append(breaker.opens_at() - now)
    assert pauses == sorted(pauses)
    now = breaker.opens_at() + 0.1
    breaker.sent(50)
    breaker.answered(50, now)
    breaker.answered(51, now + CALM_S + 1)
    breaker.trip(now + CALM_S + 2)
    assert breaker.opens_at() - (now + CALM_S + 2) == 1.0
