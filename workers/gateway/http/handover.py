"""The listening sockets, from one gateway process to the next without a moment in which nobody listens.

The one that serves waits at a unix socket in the node's directory. A newcomer asks there, gets both sockets as file
descriptors, begins to accept on them, and says so; only then does the old one stop accepting. Until it has, both do,
so no connection is refused, and what has been accepted is finished by whom it was accepted. A newcomer that dies in
between has taken nothing away.
"""

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

logger = logging.getLogger(__name__)

LISTEN_BACKLOG = 4096
_ASK, _READY = b"sockets, please\n", b"ready\n"
_TIMEOUT_S = 30.0
_SOCKETS = 2


class Listening(Struct, eq=False):
    """`predecessor` is the connection to the process that still accepts on them, if there is one."""

    serve: socket.socket
    admin: socket.socket
    predecessor: socket.socket | None = None

    def say_ready(self) -> None:
        """That we accept connections now."""
        predecessor, self.predecessor = self.predecessor, None
        if predecessor is not None:
            with contextlib.suppress(OSError), predecessor:
                predecessor.sendall(_READY)

    def close(self) -> None:
        """Ours of them only: the predecessor goes on with its own."""
        for each in (self.serve, self.admin, self.predecessor):
            if each is not None:
                each.close()


def bind(host: str, serve_port: int, admin_port: int) -> Listening:
    return Listening(listen(host, serve_port), listen(host, admin_port))


def take_over(path: Path) -> Listening | None:
    """From whoever serves now; None when nobody does."""
    asking = socket.socket(socket.AF_UNIX)
    asking.settimeout(_TIMEOUT_S)
    try:
        with _reachable(path) as address:
            asking.connect(address)
        asking.sendall(_ASK)
        _, fds, _, _ = socket.recv_fds(asking, len(_ASK), _SOCKETS)
        if len(fds) != _SOCKETS:
            raise ConnectionError("it sent no sockets")
    except OSError as error:
        asking.close()
        logger.info("there is nobody to take over from at %s: %s", path, error)
        return None
    return Listening(socket.socket(fileno=fds[0]), socket.socket(fileno=fds[1]), asking)


async def offer(path: Path, listening: Listening) -> None:
    """Returns when a successor accepts connections."""
    loop = asyncio.get_running_loop()
    with _waiting_at(path) as waiting:
        while True:
            asking, _ = await loop.sock_accept(waiting)
            with asking:
                if _is_ours(asking) and await _hand_over(asking, listening):
                    return


async def _hand_over(asking: socket.socket, listening: Listening) -> bool:
    loop = asyncio.get_running_loop()
    asking.setblocking(False)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            if await loop.sock_recv(asking, len(_ASK)) != _ASK:
                return False
            socket.send_fds(asking, [_ASK], [listening.serve.fileno(), listening.admin.fileno()])
            return await loop.sock_recv(asking, len(_READY)) == _READY
    except OSError as error:
        logger.warning("a successor asked for the sockets and did not get ready: %s", error)
        return False


def listen(host: str, port: int) -> socket.socket:
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listening = socket.socket(family, kind)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(LISTEN_BACKLOG)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


@contextmanager
def _waiting_at(path: Path) -> Iterator[socket.socket]:
    """For this user's processes alone. What a process before us left there is replaced."""
    waiting = socket.socket(socket.AF_UNIX)
    path.unlink(missing_ok=True)
    try:
        with _reachable(path) as address:
            waiting.bind(address)
        path.chmod(0o600)
        waiting.listen(1)
        waiting.setblocking(False)
        yield waiting
    finally:
        waiting.close()


@contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """A name that is short enough for a unix socket, however deep the directory lies."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _is_ours(asking: socket.socket) -> bool:
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return uid in (os.getuid(), 0)
