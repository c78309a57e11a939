"""The admin port answers probes whatever else is asked of it, and whoever else is connected."""

import socket
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from workers.gateway.http.handover import listen
from workers.gateway.observing.admin_port import start_admin

pytestmark = pytest.mark.integration


class Pages:
    """`/slow` takes until `may_end` is set."""

    def __init__(self):
        self.may_end = Event()

    def answer(self, path):
        if path == "/broken":
            raise ValueError(path)
        if path == "/slow":
            assert self.may_end.wait(20)
        return 200, "text/plain", f"this is {path}\n"


@contextmanager
def admin_port():
    pages = Pages()
    admin = pages.admin = start_admin(listen("127.0.0.1", 0), pages)
    try:
        yield admin._listening.getsockname(), pages
    finally:
        pages.may_end.set()
        admin.shutdown()
        admin.close()


def begin(address, request=b""):
    connection = socket.create_connection(address, timeout=20)
    connection.sendall(request)
    return connection


def read(connection):
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


def ask(address, path="/healthz", method="GET"):
    return read(begin(address, f"{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode()))


def test_a_page_is_answered_and_its_connection_closed():
    with admin_port() as (address, _):
        assert ask(address, "/readyz?verbose").endswith(b"\r\n\r\nthis is /readyz\n")
        assert ask(address, "/metrics").startswith(b"HTTP/1.1 200 OK\r\n")


def test_head_has_no_body_and_other_methods_are_refused():
    with admin_port() as (address, _):
        assert ask(address, method="HEAD").endswith(b"content-length: 17\r\nconnection: close\r\n\r\n")
        assert ask(address, method="POST").startswith(b"HTTP/1.1 405 ")
        assert ask(address, "/metrics", method="DELETE").startswith(b"HTTP/1.1 405 ")


def test_who_sends_nothing_or_half_a_request_holds_up_nobody():
    with admin_port() as (address, _):
        silent = [begin(address, b"GET /healthz HT"[:size]) for size in (0, 3, 15) for _ in range(40)]
        assert ask(address).endswith(b"this is /healthz\n")
        silent[-1].sendall(b"TP/1.1\r\n\r\n")
        assert read(silent[-1]).endswith(b"this is /healthz\n")
        for connection in silent:
            connection.close()


def test_more_connections_than_are_kept_are_closed_at_once():
    with admin_port() as (address, _):
        silent = [begin(address) for _ in range(256)]
        assert read(begin(address)) == b""
        for connection in silent:
            connection.close()
        assert ask(address).endswith(b"this is /healthz\n")


def test_pages_that_take_long_hold_up_no_probe():
    with admin_port() as (address, pages):
        slow = [begin(address, b"GET /slow HTTP/1.1\r\n\r\n") for _ in range(8)]
        assert ask(address, "/readyz").endswith(b"this is /readyz\n")
        pages.may_end.set()
        assert {read(connection)[-14:] for connection in slow} == {b"this is /slow\n"}


def test_a_head_without_end_is_cut_off():
    with admin_port() as (address, _):
        connection = begin(address)
        with connection, pytest.raises(OSError):  # noqa: PT011 - closed or reset, whichever the kernel says
            connection.sendall(b"x: y\r\n" * 10_000_000)


def test_a_page_that_fails_ends_no_thread():
    with admin_port() as (address, _):
        assert [ask(address, "/broken") for _ in range(9)] == [b""] * 9
        assert ask(address).startswith(b"HTTP/1.1 200 OK")


def test_who_was_accepted_before_the_end_is_answered_after_it():
    with admin_port() as (address, pages):
        late = begin(address, b"GET /readyz HT")
        assert ask(address).endswith(b"this is /healthz\n")  # by now that one is accepted
        ending = Thread(target=pages.admin.shutdown)
        ending.start()
        late.sendall(b"TP/1.1\r\n\r\n")
        assert read(late).endswith(b"this is /readyz\n")
        ending.join(20)


def test_after_the_end_another_may_accept_on_the_socket():
    listening = listen("127.0.0.1", 0)
    first, second = Pages(), Pages()
    ended = start_admin(listening, first)
    ended.shutdown()
    ended.shutdown()
    other = start_admin(listening, second)
    assert ask(listening.getsockname()).endswith(b"this is /healthz\n")
    other.shutdown()
    other.close()
