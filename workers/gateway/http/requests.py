"""HTTP/1.x requests out of the bytes of a connection: strict where parsers differ, so that nobody can smuggle one.

Whoever stands in front of the gateway must see the same requests as it does. So a head has exact line ends, no folded
lines and no space before a colon; a body has one length, in digits without leading zeros, or it is chunked and nothing
else (chunked.py). Everything else is refused, whatever pieces it comes in: any division of the same bytes gives the
same requests and the same refusal.
"""

import re
from collections.abc import Callable
from typing import Protocol

from workers.gateway.http.chunked import ChunkedBody, ChunkError
from workers.gateway.http.heads import HeadBytes, RequestHead, head_bytes
from workers.gateway.http.request_heads import MAX_URL_BYTES, RefusedRequestError, invalid, read_head
from workers.gateway.http.retelling import begin_again

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 32 * 1024 * 1024
# With the longest method, the version and the spaces between.
_MAX_FIRST_LINE_BYTES = MAX_URL_BYTES + 32

_BEGINNING = re.compile(rb"[A-Z]{1,7}(?: |\Z)")
_END_OF_HEAD = re.compile(rb"\n\r?\n")


class BodySink(Protocol):
    """Takes a body that is not kept in memory, up to `max_bytes`; more of it is refused as `too_large` says.

    `end` is called when all of it has come, `abandon` when its request is over, whether it came whole or not.
    """

    max_bytes: int
    too_large: "RefusedRequestError"

    def take(self, piece: bytes) -> None: ...
    def end(self) -> None: ...
    def abandon(self) -> None: ...


class HttpRequest:
    """`body` is decoded from its transfer coding; `keeps_alive` says whether the connection outlives the answer.

    With a `sink` the body is there, and `body` is empty.
    """

    __slots__ = ("arrived_at", "body", "head", "keeps_alive", "sink")

    def __init__(
        self, head: RequestHead, body: bytes, arrived_at: float, keeps_alive: bool, sink: BodySink | None = None
    ) -> None:
        self.head = head
        self.body = body
        self.arrived_at = arrived_at
        self.keeps_alive = keeps_alive
        self.sink = sink

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

    def values(self, name: bytes) -> list[bytes]:
        """Of each line of that name, as they came."""
        return [value for each, value in self.head.headers if each == name]


_BODY_TOO_LARGE = RefusedRequestError(413, b"body_too_large", b"The body is larger than 32 MiB.")


def _no_sink(head: RequestHead) -> BodySink | None:
    del head
    return None


class RequestReader:
    """`take` gets each request, `wants_body` is called where a client waits for leave to send the body.

    `open_sink` may give a place for the body that follows a head, or refuse it.
    """

    __slots__ = (
        "_body",
        "_chunks",
        "_head",
        "_known",
        "_known_head",
        "_left_bytes",
        "_message",
        "_open_sink",
        "_pending",
        "_sink",
        "_take",
        "_wants_body",
        "began_at",
        "body_bytes",
    )

    def __init__(
        self,
        take: Callable[[HttpRequest], None],
        wants_body: Callable[[], None],
        open_sink: Callable[[RequestHead], BodySink | None] = _no_sink,
    ) -> None:
        self._take = take
        self._open_sink = open_sink
        self._sink: BodySink | None = None
        self._wants_body = wants_body
        self._pending = b""
        self._head: RequestHead | None = None
        self._known: HeadBytes | None = None
        self._known_head: RequestHead | None = None
        self._message = b""
        self._chunks: ChunkedBody | None = None
        self._left_bytes = 0
        self._body: list[bytes] = []
        self.body_bytes = 0
        self.began_at: float | None = None

    def feed(self, data: bytes, now: float) -> None:
        """Raises RefusedRequestError; after that nothing more may be fed."""
        if self.began_at is None:
            if self._known is not None and self._known_head is not None:
                body = self._known.body_of(data)
                if body is not None:
                    self._take(HttpRequest(self._known_head, body, now, keeps_alive=True))
                    return
            self._message = data
        else:
            self._message = b""
        rest = self._pending + data if self._pending else data
        self._pending = b""
        while rest:
            rest = self._read_head(rest, now) if self._head is None else self._read_body(rest, now)

    # -- heads

    def _read_head(self, data: bytes, now: float) -> bytes:
        if data.startswith(b"\r\n"):
            return data[2:]  # an empty line between requests is forgiven
        if data == b"\r":
            self._pending = data
            return b""
        if self.began_at is None:
            self.began_at = now
        if not _BEGINNING.match(data):
            raise invalid(b"the first line is malformed")
        end = _END_OF_HEAD.search(data, 0, MAX_HEAD_BYTES)
        if end is None:
            self._require_room(data)
            self._pending = data
            return b""
        self._open(data[: end.end()], now)
        return data[end.end() :]

    def _require_room(self, data: bytes) -> None:
        """For what is still to come of a head."""
        self._require_line(data)
        if len(data) >= MAX_HEAD_BYTES:
            raise RefusedRequestError(431, b"headers_too_large", b"The headers are too large or too many.")

    def _require_line(self, data: bytes) -> None:
        """How long exactly the URL in it may be is told when all of the head is there."""
        if len(data) > _MAX_FIRST_LINE_BYTES and data.find(b"\n", 0, _MAX_FIRST_LINE_BYTES) < 0:
            raise RefusedRequestError(414, b"url_too_long", b"The URL is too long.")

    def _open(self, raw: bytes, now: float) -> None:
        self._require_line(raw)
        head = self._head = read_head(raw)
        self._sink = self._open_sink(head)
        by_name = head.first_by_name
        length = by_name.get(b"content-length")
        if b"transfer-encoding" in by_name:
            self._chunks = ChunkedBody()
        elif length is not None:
            self._left_bytes = int(length)
            if self._left_bytes > self._max_bytes():
                raise self._too_large()
        if self._chunks is None and not self._left_bytes:
            self._end(now)
        elif b"expect" in by_name and not head.is_http_10:  # which knows no interim answers
            self._wants_body()

    # -- bodies

    def _read_body(self, data: bytes, now: float) -> bytes:
        if self._chunks is not None:
            return self._read_chunks(self._chunks, data, now)
        piece, rest = data[: self._left_bytes], data[self._left_bytes :]
        self._left_bytes -= len(piece)
        self._keep(piece)
        if not self._left_bytes:
            self._end(now)
        return rest

    def _read_chunks(self, chunks: ChunkedBody, data: bytes, now: float) -> bytes:
        try:
            pieces, rest = chunks.feed(data, self._max_bytes() - self.body_bytes)
        except ChunkError as error:
            raise invalid(error.args[0]) from error
        for piece in pieces:
            self._keep(piece)
        if chunks.is_too_large:
            raise self._too_large()
        if chunks.is_over:
            self._end(now)
        return rest

    def _keep(self, piece: bytes) -> None:
        self.body_bytes += len(piece)
        if self._sink is None:
            self._body.append(piece)
        else:
            self._sink.take(piece)

    def _max_bytes(self) -> int:
        return MAX_BODY_BYTES if self._sink is None else self._sink.max_bytes

    def _too_large(self) -> RefusedRequestError:
        return _BODY_TOO_LARGE if self._sink is None else self._sink.too_large

    def abandon(self) -> None:
        """The connection is over: a body that is coming will not be whole."""
        if self._sink is not None:
            self._sink.abandon()

    def as_sent(self, *, is_invited: bool) -> bytes | None:
        """What has come of the next request, for another reader to begin with; None of what a sink has taken."""
        if self._head is None:
            return self._pending
        if self._sink is not None:
            return None
        body = b"".join(self._body)
        begun = self._chunks.as_sent(body) if self._chunks is not None else body
        return begin_again(self._head, is_invited=is_invited) + begun

    def _end(self, now: float) -> None:
        head, body, message, sink = self._head, self._body, self._message, self._sink
        self._start_over()
        self._message = b""
        if head is None:
            return
        if sink is not None:
            sink.end()
        self._remember(head, message if sink is None else b"")
        whole = body[0] if len(body) == 1 else b"".join(body)
        self._take(HttpRequest(head, whole, now, head.keeps_alive, sink))

    def _remember(self, head: RequestHead, message: bytes) -> None:
        """To know it again at once, if the message came whole in one read and may come again."""
        may_come_again = head.keeps_alive and not head.is_http_10 and b"expect" not in head.first_by_name
        self._known = head_bytes(message) if may_come_again and message else None
        self._known_head = head if self._known is not None else None

    def _start_over(self) -> None:
        self._head = None
        self._chunks = None
        self._left_bytes = 0
        self._body = []
        self._sink = None
        self.body_bytes = 0
        self.began_at = None
