"""A client of the gateway inside its own process: whoever has the answer to a request has it without a socket."""

import asyncio
from collections.abc import Callable

import httptools
from msgspec import Struct

from workers.gateway.http.connections import Connections
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.http.turns import Turn

Handle = Callable[[ClientConnection, HttpRequest], None]


class LoopbackAnswer(Struct, frozen=True):
    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Loopback(asyncio.Transport):
    """Both ends of one connection, for one request. As with a socket, what the other end does comes back later."""

    def __init__(self, handle: Handle, connections: Connections, turn: Turn) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._connection = ClientConnection(handle, connections, turn)
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._is_closing = False
        self._answer: asyncio.Future[LoopbackAnswer | None] = self._loop.create_future()
        self._connection.connection_made(self)

    def send(self, path: str, headers: dict[str, str], body: bytes) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{lines}content-length: {len(body)}\r\n\r\n"
        self._connection.data_received(head.encode() + body)

    async def answer(self) -> LoopbackAnswer | None:
        """None when the connection was closed before its end."""
        try:
            return await self._answer
        finally:
            self.close()

    # -- the transport, as the connection sees it

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._parser.feed_data(data)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._closed)

    def abort(self) -> None:
        self.close()

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered here."""

    def pause_reading(self) -> None:
        """There is but one request."""

    def resume_reading(self) -> None:
        """There is but one request."""

    # -- from the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        self._finish(LoopbackAnswer(status, self._headers, b"".join(self._body)))

    # -- inside

    def _finish(self, answer: LoopbackAnswer | None) -> None:
        if not self._answer.done():
            self._answer.set_result(answer)

    def _closed(self) -> None:
        self._connection.connection_lost(None)
        self._finish(None)
