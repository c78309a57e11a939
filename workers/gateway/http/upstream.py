"""HTTP/1.1 towards engines: a connection, and one request at a time on it."""

import asyncio
import logging
import socket
import struct
from typing import TYPE_CHECKING, Protocol

import httptools

from workers.gateway.http.engine_chunks import take_whole_chunks
from workers.gateway.http.heads import AnswerHead, HeadBytes, Headers, answer_head, head_bytes

if TYPE_CHECKING:
    from workers.gateway.http.engine_pool import EnginePool

logger = logging.getLogger(__name__)

MAX_HEADER_BYTES = 256 * 1024
# An engine notices within milliseconds that nobody waits any more.
LAST_WORDS_S = 1.0
_END_OF_HEAD = b"\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_NOT_AT_ALL = struct.pack("ii", 1, 0)


class UpstreamError(Exception):
    """The engine could not be reached, or broke off its answer."""


class AnswerReader(Protocol):
    """Whoever asked. `answer_ended` and `answer_failed` come once, and nothing after them."""

    def answer_began(self, head: AnswerHead) -> None: ...
    def answer_received(self, pieces: list[bytes]) -> None: ...
    def answer_ended(self, pieces: list[bytes]) -> None: ...
    def answer_failed(self, error: UpstreamError) -> None: ...


class UpstreamConnection(asyncio.Protocol):
    """Reports to its reader at most once per read of the socket, so that one read makes one write to the client."""

    __slots__ = (
        "_head",
        "_head_bytes",
        "_header_bytes",
        "_headers",
        "_is_behind",
        "_is_between_chunks",
        "_is_complete",
        "_is_hung_up",
        "_is_repeating",
        "_is_silent",
        "_keeps_alive",
        "_parser",
        "_pieces",
        "_pool",
        "_reader",
        "_stream_head",
        "_until_close",
        "transport",
        "was_used",
    )

    def __init__(self, pool: "EnginePool") -> None:
        self._pool = pool
        self._reader: AnswerReader | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._headers: Headers = []
        self._header_bytes = 0
        self._head: AnswerHead | None = None
        self._head_bytes: HeadBytes | None = None  # of the last answer, if that came whole in one read
        self._is_silent = True
        self._is_complete = False
        self._is_hung_up = False
        self._is_between_chunks = False
        self._stream_head = b""  # of the last answer, if chunks followed it
        self._is_behind = False  # the parser has not seen the head of this answer, which is that of the last one
        self._is_repeating = False
        self._until_close = False
        self._keeps_alive = False
        self.was_used = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's is its own class

    def ask(self, request: bytes, reader: AnswerReader) -> None:
        self._reader = reader
        self._is_silent = True
        self._is_complete = False
        self._is_between_chunks = False
        self._is_behind = False
        self._until_close = False
        self._pool.turn.write(self.transport, request)

    def abandon(self) -> None:
        """Closes at once: the engine sees that nobody waits for its answer any more."""
        self._reader = None
        self.transport.abort()

    def reset_when_closed(self) -> None:
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOT_AT_ALL)

    def hang_up(self, reader: AnswerReader) -> bool:
        """Closes this side: the engine sees the same, and `reader` hears what it had said by then. False: not here."""
        if self.transport.is_closing() or not self.transport.can_write_eof():
            return False
        self._reader = reader
        self._is_hung_up = True
        self.transport.resume_reading()
        loop = asyncio.get_running_loop()
        loop.call_soon(self._write_eof)  # behind the request, which may be written at the end of this turn
        loop.call_later(LAST_WORDS_S, self._hear_no_more)
        return True

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if reader is None:  # an engine that talks without being asked is not to be trusted with another request
            self._pool.forget(self)
            self.transport.abort()
            return
        is_first, self._is_silent = self._is_silent, False
        if is_first and self._head_bytes is not None and self._head is not None:
            body = self._head_bytes.body_of(data)
            if body is not None:
                reader.answer_began(self._head)
                self._end(reader, [body])
                return
        if is_first and self._stream_head and data.startswith(self._stream_head):
            self._begin_again(reader, data[len(self._stream_head) :])
        else:
            self._feed(reader, data, is_first=is_first)

    def _begin_again(self, reader: AnswerReader, data: bytes) -> None:
        """With the head of the last answer, which the parser need not see as long as chunks come whole."""
        assert self._head is not None, "it was parsed"  # noqa: S101 - an invariant
        self._is_behind = self._is_between_chunks = True
        reader.answer_began(self._head)
        if self._reader is reader:
            self._feed(reader, data, is_first=False)

    def _feed(self, reader: AnswerReader, data: bytes, *, is_first: bool) -> None:
        try:
            self._parse(self._parse_head(data) if is_first else data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            _log_own_fault(error.__context__)
            self._fail(UpstreamError(f"not HTTP: {error}"))
            return
        if self._reader is not reader:  # abandoned from within
            return
        pieces, self._pieces = self._pieces, []
        if self._is_complete:
            self._head_bytes = head_bytes(data) if is_first and self._keeps_alive else None
            self._end(reader, pieces)
        elif pieces:
            reader.answer_received(pieces)

    def _parse_head(self, data: bytes) -> bytes:
        """By itself, where chunks come with it. Returns what else is to be parsed."""
        end = data.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        if end < len(_END_OF_HEAD) or data.find(b"chunked", 0, end) < 0:
            return data
        head = data[:end]
        self._parser.feed_data(head)
        self._stream_head = head if self._is_between_chunks else b""
        return data[end:]

    def _parse(self, data: bytes) -> None:
        """The parser need not see chunks that come whole, if it has not begun another."""
        if self._is_between_chunks:
            data = data[take_whole_chunks(data, 0, self._pieces) :]
        if data == _LAST_CHUNK and self._is_behind:
            self._is_complete = True
        elif data:
            self._catch_up()
            self._parser.feed_data(data)
            if not data.endswith(b"\n"):  # the next one's size may have begun
                self._is_between_chunks = False

    def _catch_up(self) -> None:
        if self._is_behind:
            self._is_behind = False
            self._is_repeating = True
            self._parser.feed_data(self._stream_head)
            self._is_repeating = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.forget(self)
        if self._reader is None:
            return
        if self._until_close and exc is None:
            self._end(self._reader, [])
        else:
            self._fail(UpstreamError("the engine closed the connection"))

    # -- from the parser

    def on_message_begin(self) -> None:
        if self._is_complete:
            raise UpstreamError("more than was asked for")
        self._headers = []
        self._header_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADER_BYTES:
            raise UpstreamError("its headers do not end")
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 100:  # noqa: PLR2004 - no status of HTTP
            raise UpstreamError("its status is none")
        if status < 200 or self._is_repeating:  # noqa: PLR2004 - an interim answer
            return
        self._stream_head = b""
        head = self._head = answer_head(status, self._headers)
        self._until_close = not head.has_length
        self._is_between_chunks = head.is_chunked
        if self._reader is not None:
            self._reader.answer_began(head)

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_chunk_header(self) -> None:
        self._is_between_chunks = False

    def on_chunk_complete(self) -> None:
        self._is_between_chunks = True

    def on_message_complete(self) -> None:
        self._is_between_chunks = False
        self._is_complete = self._parser.get_status_code() >= 200  # noqa: PLR2004 - an interim answer
        self._keeps_alive = self._parser.should_keep_alive()  # only here does the parser know

    # -- inside

    def _end(self, reader: AnswerReader, pieces: list[bytes]) -> None:
        self._reader = None
        self.was_used = True
        if self._keeps_alive and not self._is_hung_up and not self.transport.is_closing():
            self._pool.put_back(self)
        else:
            self.transport.close()
        reader.answer_ended(pieces)

    def _write_eof(self) -> None:
        if not self.transport.is_closing():
            self.transport.write_eof()

    def _hear_no_more(self) -> None:
        if self._reader is not None:
            self._fail(UpstreamError("the engine goes on although nobody waits"))

    def _fail(self, error: UpstreamError) -> None:
        reader, self._reader = self._reader, None
        self.transport.abort()
        if reader is not None:
            reader.answer_failed(error)


def _log_own_fault(raised: BaseException | None) -> None:
    """The parser wraps what its callbacks raise: that is no engine's doing, and must not look like one."""
    if raised is not None and not isinstance(raised, UpstreamError):
        logger.error("reading an engine's answer failed", exc_info=raised)
