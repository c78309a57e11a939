from collections.abc import Callable
from threading import Event, Thread

import pytest

from apps.common.long_work import once_more_if_asked, one_at_a_time

pytestmark = pytest.mark.unit


class LongWork:
    """Runs in a thread until it may end; counts how often it has begun."""

    def __init__(self, kept: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        self._begun, self._may_end, self.runs = Event(), Event(), 0
        self.run = kept(self._work)
        self._thread = Thread(target=self.run)

    def _work(self) -> None:
        self.runs += 1
        self._begun.set()
        self._may_end.wait(10)

    def begin(self) -> None:
        self._thread.start()
        self._begun.wait(10)

    def end(self) -> None:
        self._may_end.set()
        self._thread.join(10)


def test_what_runs_already_is_not_started_beside_itself():
    work = LongWork(one_at_a_time)
    work.begin()
    work.run()
    assert work.runs == 1
    work.end()
    work.run()
    assert work.runs == 2


def test_what_failed_is_started_again():
    runs = []

    @one_at_a_time
    def work():
        runs.append("begun")
        raise OSError

    for _ in range(2):
        with pytest.raises(OSError, match=r"^$"):
            work()
    assert runs == ["begun", "begun"]


def test_one_does_not_keep_another_from_running():
    ran = []

    @one_at_a_time
    def inner():
        ran.append("inner")

    @one_at_a_time
    def outer():
        inner()

    outer()
    assert ran == ["inner"]


def test_what_is_asked_for_while_it_runs_is_done_once_more():
    work = LongWork(once_more_if_asked)
    work.begin()
    work.run()
    work.run()
    assert work.runs == 1
    work.end()
    assert work.runs == 2
