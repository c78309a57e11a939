"""Messages with descriptors between processes, over real sockets."""

import os
import socket
from pathlib import Path

import pytest

from workers.gateway.sisters.channel import INLINE_BYTES, REFUSED, Passed, open_inbox, receive, send
from workers.gateway.sisters.parent import refuse_waiting

pytestmark = pytest.mark.integration


@pytest.fixture
def inbox():
    reading, writing = open_inbox()
    with reading, writing:
        yield reading, writing


def open_descriptors():
    return sorted(str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())


@pytest.mark.parametrize("size", [0, 10, INLINE_BYTES, INLINE_BYTES + 1, 3_000_000])
def test_what_was_asked_and_the_connection_arrive_whole_and_nothing_stays_open(inbox, size):
    before = open_descriptors()
    ours, theirs = socket.socketpair()
    content = os.urandom(size)
    with ours:
        with theirs:
            assert send(inbox[1], Passed(content=content, hops=2, refusal=(413, b"c", b"m")), theirs.fileno())
        passed, connection = receive(inbox[0])
        with connection:
            assert (passed.content, passed.hops, passed.refusal) == (content, 2, (413, b"c", b"m"))
            connection.sendall(b"from the owner")
            assert ours.recv(100) == b"from the owner"
    assert receive(inbox[0]) is None
    assert open_descriptors() == before


def test_a_full_inbox_takes_nothing_and_says_so(inbox):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sent = 0
        while send(inbox[1], Passed(content=b"x" * INLINE_BYTES), theirs.fileno()):
            sent += 1
            assert sent < 10_000
        assert sent > 3
        for _ in range(sent):
            receive(inbox[0])[1].close()
        assert receive(inbox[0]) is None
        assert send(inbox[1], Passed(), theirs.fileno())
        receive(inbox[0])[1].close()


def test_the_end_of_all_senders_is_told(inbox):
    inbox[1].close()
    with pytest.raises(EOFError):
        receive(inbox[0])


def test_what_waits_for_a_process_that_does_not_come_back_is_refused_in_openais_shape(inbox):
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            send(inbox[1], Passed(content=b"asked"), theirs.fileno())
        refuse_waiting(inbox[0])
        answer = ours.recv(4096)
        assert ours.recv(1) == b""
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in answer
    assert answer.endswith(b'"code":"owner_unavailable"}}')


@pytest.mark.parametrize("size_bytes", [5, 2 * INLINE_BYTES])
def test_what_waits_for_a_process_that_does_not_come_back_goes_to_another_to_be_refused(inbox, size_bytes):
    other = open_inbox()
    ours, theirs = socket.socketpair()
    with ours, other[0], other[1]:
        with theirs:
            send(inbox[1], Passed(content=b"a" * size_bytes), theirs.fileno())
        refuse_waiting(inbox[0], other[1])
        passed, client = receive(other[0])
        client.close()
        assert ours.recv(1) == b""  # nothing was answered here
    assert (passed.hops, len(passed.content)) == (REFUSED, size_bytes)
