"""HTTP for probes, on a port and a thread of their own, so that no load delays them.

The thread shares the interpreter with the loop that serves. Whenever it has waited for a socket it must get that
back, which takes up to a switch interval. So a probe is answered with as few waits as there can be, and the interval is
short: it counts only while two threads want to run.
"""

import logging
import selectors
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from threading import Thread
from typing import Protocol

logger = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.0005
PROBES = frozenset(("/healthz", "/readyz"))
_TIMEOUT_S = 5.0
# For who was accepted just before the end.
_LAST_WORDS_S = 1.0
_MAX_HEAD_BYTES = 8192
_MAX_CONNECTIONS = 256
_SLOW_PAGES_AT_ONCE = 4
_END = b"\r\n\r\n"


class Answering(Protocol):
    def answer(self, path: str) -> tuple[int, str, str]:
        """Status, content type and body."""


class _Asking:
    """A connection whose request has not come whole."""

    def __init__(self, connection: socket.socket, came_at: float) -> None:
        self.connection = connection
        self.came_at = came_at
        self.head = b""


class AdminPort:
    """Probes are answered by the one thread; what takes longer, such as metrics, by others."""

    def __init__(self, listening: socket.socket, pages: Answering) -> None:
        self._listening = listening
        self._pages = pages
        self._selector = selectors.DefaultSelector()
        self._waking, self._wakes = socket.socketpair()
        self._asking: dict[int, _Asking] = {}
        self._slow = ThreadPoolExecutor(_SLOW_PAGES_AT_ONCE, "admin-page")
        self._is_over = False
        self._thread = Thread(target=self._serve, name="admin", daemon=True)

    def start(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._listening.setblocking(False)
        self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        self._selector.register(self._waking, selectors.EVENT_READ)
        self._thread.start()

    def shutdown(self) -> None:
        """Accepts nothing more, and answers whom it has; asked again, does nothing. Others may accept on the socket."""
        if self._is_over:
            return
        self._is_over = True
        self._wakes.send(b"!")
        self._thread.join(_TIMEOUT_S)
        self._waking.close()
        self._wakes.close()
        self._slow.shutdown(wait=False)

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while not self._is_over:
            self._take_turn(None)
        self._selector.unregister(self._listening)
        self._selector.unregister(self._waking)
        until = time.monotonic() + _LAST_WORDS_S
        while self._asking and time.monotonic() < until:
            self._take_turn(_LAST_WORDS_S)
        for asking in list(self._asking.values()):
            self._forget(asking)
            asking.connection.close()
        self._selector.close()

    def _take_turn(self, limit_s: float | None) -> None:
        for key, _ in self._selector.select(min(1.0, limit_s or 1.0) if self._asking else limit_s):
            if isinstance(key.data, _Asking):
                self._read(key.data)
            elif key.data is not None:
                self._accept()
        self._drop_slow()

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:  # another process that accepts on this socket was faster
            return
        if len(self._asking) >= _MAX_CONNECTIONS:
            connection.close()
            return
        connection.setblocking(False)
        asking = _Asking(connection, time.monotonic())
        self._asking[connection.fileno()] = asking
        self._selector.register(connection, selectors.EVENT_READ, asking)
        self._read(asking)  # most have sent it by now

    def _read(self, asking: _Asking) -> None:
        try:
            received = asking.connection.recv(_MAX_HEAD_BYTES)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        asking.head += received
        if _END in asking.head:
            self._forget(asking)
            self._answer(asking)
        elif not received or len(asking.head) > _MAX_HEAD_BYTES:
            self._forget(asking)
            asking.connection.close()

    def _drop_slow(self) -> None:
        now = time.monotonic()
        for asking in [each for each in self._asking.values() if now - each.came_at > _TIMEOUT_S]:
            self._forget(asking)
            asking.connection.close()

    def _forget(self, asking: _Asking) -> None:
        self._selector.unregister(asking.connection)
        del self._asking[asking.connection.fileno()]

    # -- answering

    def _answer(self, asking: _Asking) -> None:
        method, _, rest = asking.head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
        if path in PROBES or method not in (b"GET", b"HEAD"):
            self._respond(asking.connection, method, path)
        else:
            self._slow.submit(self._respond, asking.connection, method, path)

    def _respond(self, connection: socket.socket, method: bytes, path: str) -> None:
        try:
            answer = self._page(method, path)
            connection.settimeout(_TIMEOUT_S)
            connection.sendall(answer)
        except OSError as error:
            logger.debug("who asked for %s is gone: %s", path, error)
        except Exception:
            logger.exception("%s could not be shown", path)
        finally:
            connection.close()

    def _page(self, method: bytes, path: str) -> bytes:
        if method not in (b"GET", b"HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", "GET or HEAD\n", method)
        status, kind, body = self._pages.answer(path)
        return _response(HTTPStatus(status), kind, body, method)


def _response(status: HTTPStatus, kind: str, body: str, method: bytes) -> bytes:
    content = body.encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {kind}\r\n"
        f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else content)


def start_admin(listening: socket.socket, pages: Answering) -> AdminPort:
    """Serves until `shutdown()`."""
    port = AdminPort(listening, pages)
    port.start()
    return port
