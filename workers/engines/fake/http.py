"""HTTP/1.1 on a bare asyncio protocol: parses requests, writes answers as uvicorn does, notices who leaves."""

import asyncio
import logging
import socket
import struct
import uuid
from collections import deque
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httptools
from msgspec import Struct, field

log = logging.getLogger("fake-engine")

_MAX_BODY_BYTES = 64 * 1024 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
JSON = "application/json"


class Request(Struct, kw_only=True):
    """Header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""
    keeps_alive: bool = True


class Exchange:
    """One request and its answer. `on_disconnect` is called when the client goes before the answer has ended."""

    def __init__(self, request: Request, connection: "Connection") -> None:
        self.request = request
        self.on_disconnect: Callable[[], None] = lambda: None
        self.request_id = request.headers.get("x-request-id") or uuid.uuid4().hex
        self._connection = connection
        self._is_over = False

    def answer(
        self, status: int, body: bytes, content_type: str = JSON, extra: tuple[tuple[str, str], ...] = ()
    ) -> None:
        kind = (("content-type", content_type),) if body else ()
        self._write(self._head(status, (*extra, ("content-length", str(len(body))), *kind)) + body)
        self._end()

    def start_stream(self) -> None:
        headers = (("content-type", "text/event-stream; charset=utf-8"),)
        self._write(self._head(200, headers, (("transfer-encoding", "chunked"),)))

    def send(self, content: bytes) -> None:
        self._write(b"%x\r\n%b\r\n" % (len(content), content))

    def end_stream(self) -> None:
        self._write(b"0\r\n\r\n")
        self._end()

    def reset(self) -> None:
        self._is_over = True
        self._connection.reset()

    def disconnected(self) -> None:
        if not self._is_over:
            self._is_over = True
            self.on_disconnect()

    def _write(self, content: bytes) -> None:
        if not self._is_over:
            self._connection.write(content)

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._connection.exchange_ended()

    def _head(self, status: int, headers: tuple[tuple[str, str], ...], last: tuple[tuple[str, str], ...] = ()) -> bytes:
        closing = () if self.request.keeps_alive else (("connection", "close"),)
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"date: {formatdate(usegmt=True)}",
            "server: uvicorn",
            *(f"{name}: {value}" for name, value in headers),
            "vary: Origin",
            f"x-request-id: {self.request_id}",
            *(f"{name}: {value}" for name, value in (*closing, *last)),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


Handle = Callable[[Exchange], None]


class Connection(asyncio.Protocol):
    """Requests on one connection are answered one after the other."""

    def __init__(self, handle: Handle, connections: set["Connection"]) -> None:
        self._handle = handle
        self._connections = connections
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._queue: deque[Request] = deque()
        self._incoming = _Incoming()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # a TCP server's transport is a Transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 asyncio's signature
        self._connections.discard(self)
        self._queue.clear()
        self._transport = None
        if self._exchange:
            self._exchange.disconnected()

    def eof_received(self) -> bool:
        """Who closes their side has left. At once, so that nothing is made which is not written any more."""
        if self._exchange:
            self._exchange.disconnected()
        return False

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.close()
        except httptools.HttpParserCallbackError:
            # The parser hides where our own code failed; the cause is what to look at.
            log.exception("a request could not be answered")
            self.close()
        except httptools.HttpParserError:
            self.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.close()

    # called by the parser

    def on_message_begin(self) -> None:
        self._incoming = _Incoming()

    def on_url(self, url: bytes) -> None:
        self._incoming.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._incoming.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._incoming.size_bytes += len(body)
        if self._incoming.size_bytes > _MAX_BODY_BYTES:
            self.close()
        else:
            self._incoming.body.append(body)

    def on_message_complete(self) -> None:
        request = self._incoming.request(self._parser.get_method().decode(), self._parser.should_keep_alive())
        if self._exchange:
            self._queue.append(request)
        else:
            self._begin(request)

    # called by the exchange

    def write(self, content: bytes) -> None:
        if self._transport:
            self._transport.write(content)

    def exchange_ended(self) -> None:
        keeps_alive = self._exchange is not None and self._exchange.request.keeps_alive
        self._exchange = None
        if not keeps_alive:
            self.close()
        elif self._queue:
            self._begin(self._queue.popleft())

    def close(self) -> None:
        if self._transport:
            self._transport.close()

    def reset(self) -> None:
        """The client sees RST, not an orderly end."""
        if self._transport:
            connected = self._transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._transport.abort()

    def _begin(self, request: Request) -> None:
        self._exchange = Exchange(request, self)
        self._handle(self._exchange)


class _Incoming(Struct):
    url: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    body: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def request(self, method: str, keeps_alive: bool) -> Request:
        parts = urlsplit(self.url.decode("latin-1"))
        return Request(
            method=method,
            path=parts.path,
            query=dict(parse_qsl(parts.query)),
            headers=self.headers,
            body=b"".join(self.body),
            keeps_alive=keeps_alive,
        )
