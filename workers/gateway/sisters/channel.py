"""How a connection goes from one process to another: one message, with its descriptor, into the other's inbox.

Inboxes are pairs of sockets that keep messages apart (SOCK_SEQPACKET). The parent holds both ends of each, so what lies
in the inbox of a process that dies waits for the next one. What is too large for a message goes as a second descriptor,
of a file in memory. A descriptor that is sent is the kernel's to keep: the sender may close its own at once.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec
from msgspec import Struct

# Sisters that disagree for a moment on whose a model is do not send its requests to and fro: whoever is passed one so
# often goes on with it.
MAX_HOPS = 3
# Of one that is to be refused: its owner does not come back.
REFUSED = MAX_HOPS + 1
INLINE_BYTES = 32 * 1024
# Larger than what is inline and all that stands beside it.
_MESSAGE_BYTES = 2 * INLINE_BYTES
_MAX_DESCRIPTORS = 2
_FLAGS = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC


class Passed(Struct, array_like=True, kw_only=True):
    """`content` is what a client asked and has no answer to, or an errand; `is_apart`: it is in the second descriptor.

    `hops` counts how often it was passed. `refusal` is (status, code, message) of what ends it after its last answer.
    """

    kind: Literal["connection", "errand"] = "connection"
    hops: int = 1
    arrived_at: float = 0.0
    content: bytes = b""
    is_apart: bool = False
    refusal: tuple[int, bytes, bytes] | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Passed).decode


def open_inbox() -> tuple[socket.socket, socket.socket]:
    """(where it is read, where it is written)."""
    reading, writing = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reading.setblocking(False)
    writing.setblocking(False)
    return reading, writing


def send(inbox: socket.socket, passed: Passed, descriptor: int) -> bool:
    """False when it has no room now, or the machine has none for another descriptor."""
    with _apart(passed) as descriptors:
        try:
            socket.send_fds(inbox, [_encode(passed)], [descriptor, *descriptors], socket.MSG_DONTWAIT)
        except OSError:
            return False
    return True


def receive(inbox: socket.socket) -> tuple[Passed, socket.socket] | None:
    """The next that waits; None when none does. Raises EOFError when nobody can send any more."""
    try:
        message, descriptors, _, _ = socket.recv_fds(inbox, _MESSAGE_BYTES, _MAX_DESCRIPTORS, _FLAGS)
    except (BlockingIOError, InterruptedError):
        return None
    if not message:
        raise EOFError
    passed = _decode(message)
    if len(descriptors) != 1 + passed.is_apart:  # there was no room for them, and so its client has been let go
        for descriptor in descriptors:
            os.close(descriptor)
        return receive(inbox)
    if passed.is_apart:
        passed.content = _read_whole(descriptors[1])
    return passed, socket.socket(fileno=descriptors[0])


@contextmanager
def _apart(passed: Passed) -> Iterator[list[int]]:
    if len(passed.content) <= INLINE_BYTES:
        yield []
        return
    descriptor = os.memfd_create("passed", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb", buffering=0) as file:
            content = memoryview(passed.content)
            while content:
                content = content[file.write(content) :]
        passed.content, passed.is_apart = b"", True
        yield [descriptor]
    finally:
        os.close(descriptor)


def _read_whole(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return file.read()
