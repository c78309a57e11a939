"""A client's connection: requests one after the other, answers in the same order, and bounded buffers both ways."""

import asyncio
from collections.abc import Callable

from workers.gateway.http.closing import ClosingConnection
from workers.gateway.http.connections import Connections
from workers.gateway.http.heads import Headers, RequestHead, header_lines
from workers.gateway.http.request_heads import RefusedRequestError
from workers.gateway.http.requests import BodySink, HttpRequest, RequestReader
from workers.gateway.http.retelling import tell_again
from workers.gateway.http.turns import Turn

MAX_PIPELINED = 16
WRITE_BUFFER_BYTES = 256 * 1024
_TOO_MANY = RefusedRequestError(503, b"too_many_connections", b"This gateway has as many connections as it takes.")

OpenSink = Callable[["ClientConnection", RequestHead], BodySink | None]


class ClientConnection(ClosingConnection):
    """Parses requests one after the other; `handle` is called with the next one when the last is answered."""

    __slots__ = ("_connections", "_handle", "_is_invited", "_is_reading_paused", "_open_sink", "has_left", "key_id")

    def __init__(
        self,
        handle: Callable[["ClientConnection", HttpRequest], None],
        connections: Connections,
        turn: Turn,
        open_sink: OpenSink | None = None,
    ) -> None:
        super().__init__(turn, RequestReader(self._take, self._invite_body, self._sink_for))
        self._handle = handle
        self._connections = connections
        self._open_sink = open_sink
        self._is_reading_paused = False
        self._is_invited = True  # nobody waits for leave to send a body
        self.has_left = False
        self.key_id = ""

    # -- from the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's is its own class
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        is_full = self._connections.is_full()
        self._connections.add(self)
        if is_full:
            self._refuse(_TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        if isinstance(exc, BrokenPipeError):
            self.has_left = True  # so says a kernel that had heard the end of what the client sends, before its reset
        if self.before_end is not None:
            self.before_end()
        self._connections.leave(self)
        self._reader.abandon()
        for request in (self.current, *self._waiting):
            if request is not None and request.sink is not None:
                request.sink.abandon()
        self._waiting.clear()
        owner, self.owner = self.owner, None
        if owner is not None:
            owner.client_left()

    def eof_received(self) -> bool:
        self.has_left = True  # a client that closes its side has, as uvicorn (and so vLLM) sees it
        return False

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
        if self.is_closing or self._refusal is not None:
            return
        try:
            self._reader.feed(data, now)
        except RefusedRequestError as refusal:
            self._refuse(refusal)

    # -- towards the owner

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

    def response_done(self, *, must_close: bool = False) -> None:
        """The current request is answered: takes up the next one, or closes as HTTP asks."""
        request, self.current, self.owner = self.current, None, None
        if request is not None and request.sink is not None:
            request.sink.abandon()
        if must_close or self.is_closing or request is None or not request.keeps_alive:
            self._close()
        elif self._waiting:
            self._loop.call_soon(self._next)
        elif self._refusal is not None:
            self._answer_refusal(self._refusal)
        else:
            self._await_next()

    # -- for another process that goes on with it

    def unanswered(self) -> bytes | None:
        """All that was asked and has no answer, as it may be sent again; None while an upload is in it."""
        rest = self._reader.as_sent(is_invited=self._is_invited)
        asked = [request for request in (self.current, *self._waiting) if request is not None]
        if rest is None or any(request.sink is not None for request in asked):
            return None
        return b"".join([tell_again(request.head, request.body) for request in asked]) + rest

    @property
    def refusal(self) -> RefusedRequestError | None:
        """What comes after the last answer, where framing is lost."""
        return self._refusal

    def let_go(self) -> None:
        """Another process has the connection: here it ends, and nobody is told."""
        self.current = self.owner = None
        self._waiting.clear()
        self.is_closing = True
        self.transport.abort()

    def go_on_with(self, asked: bytes, arrived_at: float, refusal: RefusedRequestError | None) -> None:
        """What the client asked another process for."""
        try:
            self._reader.feed(asked, arrived_at)
        except RefusedRequestError as found:
            refusal = found
        if refusal is not None:
            self._refuse(refusal)

    # -- inside

    def _sink_for(self, head: RequestHead) -> BodySink | None:
        return self._open_sink(self, head) if self._open_sink is not None else None

    def _take(self, request: HttpRequest) -> None:
        self._is_invited = True
        if self.current is None and not self._waiting and not self.is_gone:
            self.current = request
            self._handle(self, request)
            return
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

    def _await_next(self) -> None:
        """From now on it idles; and what has begun to come behind the answer has its whole time."""
        self.last_active_at = now = self._loop.time()
        if self._reader.began_at is not None:
            self._reader.began_at = now
        if not self._is_invited:
            self._invite_body()

    def _invite_body(self) -> None:
        """At once, or after the answers to what was asked before."""
        self._is_invited = self.current is None and not self._waiting
        if self._is_invited:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
