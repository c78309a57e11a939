from collections import Counter
from types import SimpleNamespace

import pytest

from workers.gateway.driving.clockwork import Clockwork

pytestmark = pytest.mark.unit


class Loop:
    """The one timer that is armed."""

    def __init__(self):
        self.armed = []

    def call_later(self, delay_s, work):
        timer = SimpleNamespace(delay_s=delay_s, work=work)
        timer.cancel = lambda: self.armed.remove(timer)
        self.armed.append(timer)
        return timer

    def pass_beats(self, count):
        for _ in range(count):
            (timer,) = self.armed
            self.armed.clear()
            timer.work()


@pytest.fixture
def loop():
    return Loop()


@pytest.fixture
def clockwork(loop):
    return Clockwork(0.05, loop.call_later)


def test_everything_comes_at_its_period_by_one_timer(loop, clockwork):
    done = Counter()
    for period_s in (0.05, 0.2, 0.25, 1.0):
        clockwork.each(period_s, lambda period_s=period_s: done.update([period_s]))
    clockwork.start()
    loop.pass_beats(40)
    assert done == {0.05: 40, 0.2: 10, 0.25: 8, 1.0: 2}
    assert [timer.delay_s for timer in loop.armed] == [0.05]


def test_works_of_the_same_period_are_spread_over_its_beats(loop, clockwork):
    per_beat, done = [], []
    for number in range(4):
        clockwork.each(0.2, lambda number=number: done.append(number))
    clockwork.start()
    for _ in range(4):
        loop.pass_beats(1)
        per_beat.append(len(done))
        done.clear()
    assert per_beat == [1, 1, 1, 1]


def test_what_is_due_more_often_than_it_beats_comes_with_each_beat(loop, clockwork):
    done = []
    clockwork.each(0.001, lambda: done.append(1))
    clockwork.start()
    loop.pass_beats(3)
    assert len(done) == 3


def test_a_failure_stops_neither_the_others_nor_the_next_time(loop, clockwork, caplog):
    done = []

    def fail():
        done.append("failed")
        raise ValueError("broken")

    clockwork.each(0.05, fail)
    clockwork.each(0.05, lambda: done.append("other"))
    clockwork.start()
    loop.pass_beats(2)
    assert done == ["failed", "other"] * 2
    assert "periodic work failed" in caplog.text


def test_nothing_comes_after_the_stop(loop, clockwork):
    clockwork.each(0.05, lambda: None)
    clockwork.start()
    clockwork.stop()
    assert loop.armed == []
