from threading import Event, Thread

import pytest

from apps.common.long_work import once_more_if_asked, one_at_a_time

pytestmark = pytest.mark.unit


def test_what_runs_already_is_not_started_beside_itself():
    begun, may_end, runs = Event(), Event(), []

    @one_at_a_time
    def work():
        runs.append("begun")
        begun.set()
        may_end.wait(10)

    first = Thread(target=work)
    first.start()
    begun.wait(10)
    work()
    assert runs == ["begun"]
    may_end.set()
    first.join(10)
    work()
    assert runs == ["begun", "begun"]


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
    begun, may_end, runs = Event(), Event(), []

    @once_more_if_asked
    def work():
        runs.append("begun")
        begun.set()
        may_end.wait(10)

    first = Thread(target=work)
    first.start()
    begun.wait(10)
    work()
    work()
    assert runs == ["begun"]
    may_end.set()
    first.join(10)
    assert runs == ["begun", "begun"]
