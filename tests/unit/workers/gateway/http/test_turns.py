import pytest

from tests.unit.workers.gateway.records.test_spool import make_records
from workers.gateway.http.turns import WRITES_MAX, Turn

pytestmark = pytest.mark.unit


class World:
    """Spool, loop and sockets in one, which notes what happens in what order."""

    def __init__(self):
        self.events = []
        self.due = []
        self.now = 0.0
        self.turn = Turn(self, self.due.append, lambda: self.now)

    def append_all(self, records):
        self.events.append(("records", [record.sequence for record in records]))

    def run_due(self):
        due, self.due[:] = list(self.due), []
        for work in due:
            work()


class Sink:
    def __init__(self, world, name):
        self.world, self.name, self.is_closed = world, name, False

    def write(self, data):
        self.world.events.append((self.name, data))

    def close(self):
        self.is_closed = True
        self.world.events.append((self.name, "closed"))

    def is_closing(self):
        return self.is_closed


def test_all_records_of_a_turn_are_one_write_before_any_answer():
    world = World()
    client, other = Sink(world, "client"), Sink(world, "other")
    first, second = make_records(2)
    world.turn.append(first)
    world.turn.write(client, b"answer")
    world.turn.append(second)
    world.turn.write(other, b"answer")
    assert world.events == []
    world.run_due()
    assert world.events == [("records", [1, 2]), ("client", b"answer"), ("other", b"answer")]


def test_the_end_of_a_turn_is_asked_for_once():
    world = World()
    world.turn.write(Sink(world, "a"), b"1")
    world.turn.append(make_records(1)[0])
    world.turn.write(Sink(world, "b"), b"2")
    assert len(world.due) == 1
    world.run_due()
    world.turn.write(Sink(world, "c"), b"3")
    assert len(world.due) == 1


def test_many_writes_do_not_wait_for_the_end_of_the_turn():
    world = World()
    sink = Sink(world, "client")
    world.turn.append(make_records(1)[0])
    for _ in range(WRITES_MAX):
        world.turn.write(sink, b"x")
    assert world.events == [("records", [1])] + [("client", b"x")] * WRITES_MAX


def test_a_socket_is_closed_after_what_was_written_to_it():
    world = World()
    sink = Sink(world, "client")
    world.turn.write(sink, b"answer")
    world.turn.close(sink)
    world.run_due()
    assert world.events == [("client", b"answer"), ("client", "closed")]


def test_nothing_is_written_to_a_socket_that_closed_meanwhile():
    world = World()
    sink = Sink(world, "client")
    world.turn.write(sink, b"answer")
    sink.is_closed = True
    world.run_due()
    assert world.events == []


def test_a_write_long_after_the_last_one_goes_out_at_once_and_after_the_records():
    world = World()
    client, other = Sink(world, "client"), Sink(world, "other")
    world.now = 1.0
    world.turn.append(make_records(1)[0])
    world.turn.write(client, b"answer")
    assert world.events == [("records", [1]), ("client", b"answer")]
    world.turn.write(other, b"soon after it")
    assert len(world.events) == 2
    world.run_due()
    assert world.events[2:] == [("other", b"soon after it")]


def test_a_late_write_does_not_overtake_what_waits():
    world = World()
    client = Sink(world, "client")
    world.turn.write(client, b"1")
    world.now = 1.0
    world.turn.write(client, b"2")
    assert world.events == []
    world.run_due()
    assert world.events == [("client", b"1"), ("client", b"2")]
