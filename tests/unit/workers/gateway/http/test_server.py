import asyncio

import pytest

from workers.gateway.http.connections import Connections
from workers.gateway.http.server import ClientConnection

pytestmark = pytest.mark.unit

LIMITS = {"idle_s": 75.0, "request_s": 30.0, "stall_s": 60.0}
ASKED = b"GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n"


class Transport:
    def __init__(self):
        self.is_closed = self.is_paused = False

    def set_write_buffer_limits(self, high): ...
    def can_write_eof(self):
        return False

    def pause_reading(self):
        self.is_paused = True

    def resume_reading(self): ...

    def is_closing(self):
        return self.is_closed


class Turn:
    """Writes at once."""

    def __init__(self):
        self.written = b""

    def write(self, transport, data):
        self.written += data

    def close(self, transport):
        transport.is_closed = True


class Loop:
    def __init__(self):
        self.now = 1000.0

    def time(self):
        return self.now

    def call_soon(self, function):
        function()


@pytest.fixture
def loop(monkeypatch):
    loop = Loop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    return loop


@pytest.fixture
def connection(loop):
    connection = ClientConnection(lambda connection, request: None, Connections(), Turn())
    connection.connection_made(Transport())
    return connection


def test_it_idles_from_the_end_of_its_answer_on(loop, connection):
    connection.data_received(ASKED)
    loop.now += 100
    connection.respond(200, [], b"")
    loop.now += 74

    connection.sweep(loop.now, **LIMITS)
    assert not connection.transport.is_closed

    loop.now += 2
    connection.sweep(loop.now, **LIMITS)
    assert connection.transport.is_closed


def test_what_has_begun_to_come_behind_a_long_answer_has_its_whole_time(loop, connection):
    connection.data_received(ASKED + ASKED[:10])
    loop.now += 100
    connection.respond(200, [], b"")
    loop.now += 29

    connection.sweep(loop.now, **LIMITS)
    assert b" 408 " not in connection._turn.written

    loop.now += 2
    connection.sweep(loop.now, **LIMITS)
    assert b" 408 " in connection._turn.written


def test_after_nonsense_nothing_more_is_taken_up(connection):
    connection.data_received(ASKED + ASKED + b"nonsense")
    connection.data_received(ASKED)
    for _ in range(2):
        connection.respond(200, [], b"")

    assert connection._turn.written.count(b" 200 ") == 2
    assert connection._turn.written.endswith(b'"code":"invalid_http"}}')
    assert connection.transport.is_closed


def test_one_that_is_closed_while_it_idles_reads_nothing_more(connection):
    """So its kernel resets whatever comes: nobody has begun on that, and a gateway that asked asks another."""
    connection.data_received(ASKED)
    connection.close_when_idle()
    assert not connection.transport.is_closed

    connection.respond(200, [], b"")
    assert connection._turn.written.endswith(b"connection: close\r\n\r\n")

    idle = ClientConnection(lambda connection, request: None, Connections(), Turn())
    idle.connection_made(Transport())
    idle.close_when_idle()
    assert idle.transport.is_closed
    assert idle.transport.is_paused


def test_what_comes_before_it_is_known_whether_the_last_answer_was_heard_is_answered_too(connection):
    connection.data_received(ASKED)
    connection.before_end = lambda: None
    connection.respond(200, [], b"")
    connection.close_when_idle()
    assert not connection.is_closing

    connection.data_received(ASKED)
    assert connection.current is not None
    connection.before_end = None
    connection.respond(503, [], b"")
    assert b" 503 " in connection._turn.written
    assert connection.transport.is_closed


def test_one_whose_answer_had_begun_before_it_was_the_last_stays_until_it_idles(connection):
    connection.data_received(ASKED)
    assert b"connection: close" not in connection.head(200, b"")
    connection.close_after_next_answer()
    connection.response_done()
    assert not connection.transport.is_closed

    connection.data_received(ASKED)
    connection.respond(200, [], b"")
    assert connection._turn.written.endswith(b"connection: close\r\n\r\n")
    assert connection.transport.is_closed
