"""HTTP/1.1 towards clients: a `ClientConnection` per socket, on httptools, with strict framing and bounded buffers."""

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

import httptools
from msgspec import Struct

from workers.gateway.heads import HeadBytes, Headers, RequestHead, head_bytes, header_lines, request_head
from workers.gateway.turns import Turn

MAX_URL_BYTES = 8 * 1024
MAX_HEADER_BYTES = 64 * 1024
MAX_HEADERS = 128
MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_PIPELINED = 16
WRITE_BUFFER_BYTES = 256 * 1024

_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


class HttpRequest(Struct, eq=False):
    """`body` is decoded from its transfer coding; `keeps_alive` says whether the connection outlives the answer."""

    head: RequestHead
    body: bytes
    arrived_at: float
    keeps_alive: bool

    @property
    def method(self) -> bytes:
        return self.head.method

    @property
    def path(self) -> bytes:
        return self.head.path

    @property
    def is_http_10(self) -> bool:
        return self.head.is_http_10

    def header(self, name: bytes) -> bytes:
        """Its first value; b"" when it is absent."""
        return self.head.first_by_name.get(name, b"")


class ResponseOwner(Protocol):
    """Whoever answers the current request of a connection."""

    def client_left(self) -> None: ...
    def client_paused(self) -> None: ...
    def client_resumed(self) -> None: ...


class ClientConnection(asyncio.Protocol):
    """Parses requests one after the other; `handle` is called with the next one when the last is answered."""

    __slots__ = (
        "_body",
        "_body_bytes",
        "_connections",
        "_fed",
        "_handle",
        "_head",
        "_head_bytes",
        "_header_bytes",
        "_headers",
        "_is_between_messages",
        "_is_in_message",
        "_is_reading_paused",
        "_loop",
        "_message_began_at",
        "_parser",
        "_turn",
        "_url",
        "_waiting",
        "current",
        "is_closing",
        "is_gone",
        "last_active_at",
        "owner",
        "transport",
        "write_paused_at",
    )

    def __init__(
        self,
        handle: Callable[["ClientConnection", HttpRequest], None],
        connections: set["ClientConnection"],
        turn: Turn,
    ) -> None:
        self._handle = handle
        self._connections = connections
        self._turn = turn
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[HttpRequest] = deque()
        self._is_reading_paused = False
        self._is_between_messages = True
        self._fed = b""
        self._head: RequestHead | None = None
        self._head_bytes: HeadBytes | None = None
        self.transport: asyncio.Transport
        self.current: HttpRequest | None = None
        self.owner: ResponseOwner | None = None
        self.is_closing = False
        self.is_gone = False
        self.write_paused_at: float | None = None
        self.last_active_at = self._loop.time()
        self._reset_message()

    # -- from the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's is its own class
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_gone = True
        self._connections.discard(self)
        self._waiting.clear()
        if self.owner is not None:
            self.owner.client_left()

    def eof_received(self) -> bool:
        return False  # a client that closes its side has left, as uvicorn (and so vLLM) sees it

    def pause_writing(self) -> None:
        self.write_paused_at = self._loop.time()
        if self.owner is not None:
            self.owner.client_paused()

    def resume_writing(self) -> None:
        self.write_paused_at = None
        if self.owner is not None:
            self.owner.client_resumed()

    def data_received(self, data: bytes) -> None:
        self.last_active_at = now = self._loop.time()
        if self.is_closing:
            return
        if self._head_bytes is not None and self._head is not None and self._is_between_messages:
            body = self._head_bytes.body_of(data)
            if body is not None:
                self._take(HttpRequest(self._head, body, now, keeps_alive=True))
                return
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        self._fed = data if self._is_between_messages else b""
        self._is_between_messages = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, b"upgrade_unsupported", b"This server does not switch protocols.")
        except _RefusedError as refusal:
            self._refuse(*refusal.args)
        except httptools.HttpParserError as error:
            self._refuse_broken(error)

    # -- from the parser

    def on_message_begin(self) -> None:
        self._reset_message()
        self._is_in_message = True
        self._is_between_messages = False

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > MAX_URL_BYTES:
            raise _RefusedError(414, b"url_too_long", b"The URL is too long.")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADER_BYTES or len(self._headers) >= MAX_HEADERS:
            raise _RefusedError(431, b"headers_too_large", b"The headers are too large or too many.")
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        for name, value in self._headers:
            if name == b"content-length" and value.isdigit() and int(value[:20]) > MAX_BODY_BYTES:
                raise _RefusedError(*_BODY_TOO_LARGE)
            if name == b"expect" and value.lower() == b"100-continue" and self.current is None:
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > MAX_BODY_BYTES:
            raise _RefusedError(*_BODY_TOO_LARGE)
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._is_in_message = False
        self._is_between_messages = True
        head = request_head(
            self._parser.get_method(),
            self._url,
            self._headers,
            is_http_10=self._parser.get_http_version() == "1.0",
            keeps_alive=self._parser.should_keep_alive(),
        )
        self._remember(head)
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._take(HttpRequest(head, body, self._loop.time(), head.keeps_alive))

    # -- towards the owner

    def write(self, data: bytes) -> None:
        """At the end of this turn of the loop, after the records of all that was settled before."""
        self._turn.write(self.transport, data)

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """A whole answer in one write. HEAD gets the headers alone."""
        length = (b"content-length", b"%d" % len(body))
        self.respond_with(status, header_lines([*headers, length]), body)

    def respond_with(self, status: int, lines: bytes, body: bytes) -> None:
        """The same with headers that are lines already, the body's length among them."""
        head = self.head(status, lines)
        is_head = self.current is not None and self.current.method == b"HEAD"
        self.write(head if is_head else head + body)
        self.response_done()

    def head(self, status: int, lines: bytes) -> bytes:
        """The head's bytes, with a Connection header where HTTP needs one."""
        request = self.current
        first_line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
        if request is None or not request.keeps_alive:
            return first_line + lines + b"connection: close\r\n\r\n"
        if request.is_http_10:
            return first_line + lines + b"connection: keep-alive\r\n\r\n"
        return first_line + lines + b"\r\n"

    def response_done(self, *, must_close: bool = False) -> None:
        """The current request is answered: takes up the next one, or closes as HTTP asks."""
        request, self.current, self.owner = self.current, None, None
        if must_close or self.is_closing or request is None or not request.keeps_alive:
            self.is_closing = True
            self._turn.close(self.transport)
        elif self._waiting:
            self._loop.call_soon(self._next)

    # -- for the sweep

    def close_when_idle(self) -> None:
        """For shutdown: a connection in the middle of an answer closes after it."""
        self.is_closing = True
        if self.current is None and not self._waiting:
            self._turn.close(self.transport)

    def sweep(self, now: float, *, idle_s: float, request_s: float, stall_s: float) -> None:
        """Closes a connection that idles, sends its request too slowly, or does not take its answer."""
        if self.write_paused_at is not None and now - self.write_paused_at > stall_s:
            self.transport.abort()
        elif self.current is None and self._is_in_message:
            if now - self._message_began_at > request_s:
                self._refuse(408, b"request_timeout", b"The request took too long to arrive.")
        elif self.current is None and now - self.last_active_at > idle_s:
            self._turn.close(self.transport)

    # -- inside

    def _remember(self, head: RequestHead) -> None:
        """For `data_received`, if the message came whole in one read and may come again."""
        may_come_again = head.keeps_alive and not head.is_http_10 and b"expect" not in head.first_by_name
        self._head_bytes = head_bytes(self._fed) if may_come_again else None
        self._head = head if self._head_bytes is not None else None
        self._fed = b""

    def _take(self, request: HttpRequest) -> None:
        self._waiting.append(request)
        if len(self._waiting) >= MAX_PIPELINED:
            self._is_reading_paused = True
            self.transport.pause_reading()
        if self.current is None:
            self._next()

    def _next(self) -> None:
        if self.current is not None or not self._waiting or self.is_gone:
            return
        self.current = self._waiting.popleft()
        if self._is_reading_paused:
            self._is_reading_paused = False
            self.transport.resume_reading()
        self._handle(self, self.current)

    def _reset_message(self) -> None:
        self._is_in_message = False
        self._message_began_at = self._loop.time()
        self._url = b""
        self._headers: Headers = []
        self._header_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0

    def _refuse_broken(self, error: httptools.HttpParserError) -> None:
        cause = error.__context__
        if isinstance(cause, _RefusedError):  # httptools wraps what a callback raises
            self._refuse(*cause.args)
        else:
            self._refuse(400, b"invalid_http", b"The request is not valid HTTP/1.1.")

    def _refuse(self, status: int, code: bytes, message: bytes) -> None:
        """Framing is lost: answers, unless another answer is under way, and closes."""
        self._waiting.clear()
        self.is_closing = True
        if self.current is not None:
            return
        body = b'{"error":{"message":"%b","type":"invalid_request_error","param":null,"code":"%b"}}' % (message, code)
        lines = header_lines([(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))])
        self.write(self.head(status, lines) + body)
        self._turn.close(self.transport)


class _RefusedError(Exception):
    """Raised out of a parser callback: status, code, message."""


_BODY_TOO_LARGE = (413, b"body_too_large", b"The body is larger than 32 MiB.")
