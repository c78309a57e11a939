"""How a client's connection is written to, and how it ends: after an answer, by a refusal, or for want of use."""

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

from workers.gateway.http.heads import header_lines
from workers.gateway.http.request_heads import RefusedRequestError
from workers.gateway.http.requests import HttpRequest, RequestReader
from workers.gateway.http.turns import Turn

# A body may take longer than `request_s` as long as it comes at this rate.
MIN_BODY_BYTES_PER_S = 64 * 1024
# How long a client that is refused while it sends has to read why, before its connection is reset.
LINGER_S = 2.0

_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


class ResponseOwner(Protocol):
    """Whoever answers the current request of a connection."""

    def client_left(self) -> None: ...
    def client_paused(self) -> None: ...
    def client_resumed(self) -> None: ...


class ClosingConnection(asyncio.Protocol):
    """`current` is the request that `owner` answers."""

    __slots__ = (
        "_loop",
        "_reader",
        "_refusal",
        "_turn",
        "_waiting",
        "before_end",
        "current",
        "is_closing",
        "is_gone",
        "is_last",
        "last_active_at",
        "owner",
        "transport",
        "write_paused_at",
    )

    def __init__(self, turn: Turn, reader: RequestReader) -> None:
        self._turn = turn
        self._loop = asyncio.get_running_loop()
        self._reader = reader
        self._waiting: deque[HttpRequest] = deque()
        self._refusal: RefusedRequestError | None = None
        self.transport: asyncio.Transport
        self.current: HttpRequest | None = None
        self.owner: ResponseOwner | None = None
        self.before_end: Callable[[], None] | None = None  # what is to be asked of the socket as long as there is one
        self.is_closing = False
        self.is_gone = False
        self.is_last = False
        self.write_paused_at: float | None = None
        self.last_active_at = self._loop.time()

    def write(self, data: bytes) -> None:
        """At the end of this turn of the loop, after the records of all that was settled before."""
        self._turn.write(self.transport, data)

    def head(self, status: int, lines: bytes) -> bytes:
        """The head's bytes, with a Connection header where HTTP needs one."""
        request = self.current
        if self.is_last and request is not None and not self._waiting:
            request.keeps_alive = False
        first_line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
        if request is None or not request.keeps_alive:
            return first_line + lines + b"connection: close\r\n\r\n"
        if request.is_http_10:
            return first_line + lines + b"connection: keep-alive\r\n\r\n"
        return first_line + lines + b"\r\n"

    def close_after_next_answer(self) -> None:
        """For a handover: who asks here once more is answered, and told to come again by another connection."""
        self.is_last = True

    def close_when_idle(self) -> None:
        """For shutdown, again and again: one in the middle of a request or an answer is not idle.

        Nor is one of which it is still to be known whether the last answer arrives.
        """
        self.is_last = True
        is_idle = self.current is None and not self._waiting and self._reader.began_at is None
        if is_idle and self.before_end is None and not self.is_closing:
            self._close_unread()

    def sweep(self, now: float, *, idle_s: float, request_s: float, stall_s: float) -> None:
        """Closes a connection that idles, sends its request too slowly, or does not take its answer."""
        if self.write_paused_at is not None and now - self.write_paused_at > stall_s:
            self.transport.abort()
        elif self.is_closing:
            return
        elif self.current is None and self._reader.began_at is not None:
            waited_s = now - self._reader.began_at
            if waited_s > request_s + self._reader.body_bytes / MIN_BODY_BYTES_PER_S:
                self._refuse(RefusedRequestError(408, b"request_timeout", b"The request took too long to arrive."))
        elif self.current is None and now - self.last_active_at > idle_s:
            self._close_unread()

    def _refuse(self, refusal: RefusedRequestError) -> None:
        """Framing is lost: what was asked before is answered, then this, and then the connection closes."""
        self._refusal = refusal
        if self.current is None and not self._waiting:
            self._answer_refusal(refusal)

    def _answer_refusal(self, refusal: RefusedRequestError) -> None:
        self.is_closing = True
        body = refusal.body()
        lines = header_lines([(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))])
        self.write(self.head(refusal.status, lines) + body)
        self._loop.call_soon(self._linger)

    def _close_unread(self) -> None:
        """Whoever asks in this moment sees a reset. By that a gateway knows that nobody has begun, and asks another."""
        self.is_closing = True
        if not self.transport.is_closing():
            self.transport.pause_reading()
        self._turn.close(self.transport)

    def _close(self) -> None:
        """Where it is still to be known whether the last answer arrives, the other side closes first."""
        self.is_closing = True
        if self.before_end is None:
            self._turn.close(self.transport)
        else:
            self._loop.call_soon(self._close_own_side)

    def _linger(self) -> None:
        """What the client still sends is thrown away: to close on it would reset the connection, and the answer too."""
        if self._reader.began_at is not None:
            self._close_own_side()
        else:
            self._turn.close(self.transport)

    def _close_own_side(self) -> None:
        if not self.is_gone and self.transport.can_write_eof():
            self.transport.write_eof()
            self._loop.call_later(LINGER_S, self.transport.close)
        else:
            self._turn.close(self.transport)
