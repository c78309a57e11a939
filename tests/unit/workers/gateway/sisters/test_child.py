import signal

import pytest

from workers.gateway.sisters.child import SILENT_AFTER_S, Child

pytestmark = pytest.mark.unit


class Process:
    returncode = None

    def __init__(self):
        self.signals = []

    def send_signal(self, number):
        self.signals.append(number)


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def process():
    return Process()


@pytest.fixture
def child(clock, process):
    child = Child(0, lambda *_: ([], ()), lambda *_: None, lambda _: None, lambda: clock[0])
    child.is_up, child._process = True, process
    return child


def test_one_that_says_nothing_for_long_is_ended(child, process, clock):
    clock[0] += SILENT_AFTER_S
    child.end_if_hung()
    assert process.signals == []
    clock[0] += 1
    child.end_if_hung()
    assert process.signals == [signal.SIGKILL]


def test_a_machine_that_stood_still_ends_none(child, process, clock):
    """Parent and children all stood still: what they had to say comes next."""
    clock[0] += 2 * SILENT_AFTER_S
    child.excuse(2 * SILENT_AFTER_S - 1)
    child.end_if_hung()
    assert process.signals == []
    clock[0] += SILENT_AFTER_S
    child.end_if_hung()
    assert process.signals == [signal.SIGKILL]
