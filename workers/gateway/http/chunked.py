"""A chunked body, read as RFC 9112 §7.1 writes it: what no sender may write is refused, as parsers differ about it.

Extensions of chunks and fields behind the last one are read over and dropped, within bounds. None of the fields may be
one that says where a message ends, whose it is or how it is to be read.
"""

import re

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_QUOTED = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*'
_MAX_ZEROS = 16
_ZEROS = rb"0{0,%d}" % _MAX_ZEROS
_EXTENSIONS = rb"(?:;%b(?:=(?:%b|%b\"))?)*" % (_TOKEN, _TOKEN, _QUOTED)
_SIZE_LINE = re.compile(rb"(%b[0-9A-Fa-f]{1,8})(%b)" % (_ZEROS, _EXTENSIONS))
# What may become such a line.
_SIZE_BEGUN = re.compile(
    rb"%b[0-9A-Fa-f]{0,8}|%b[0-9A-Fa-f]{1,8}%b(?:;(?:%b(?:=(?:%b|%b[\\\"]?)?)?)?)"
    % (_ZEROS, _ZEROS, _EXTENSIONS, _TOKEN, _TOKEN, _QUOTED)
)
_FIELD = re.compile(rb"(%b):[\t -~\x80-\xff]*" % _TOKEN)
_FIELD_BEGUN = re.compile(rb"(?:%b)?|%b:[\t -~\x80-\xff]*" % (_TOKEN, _TOKEN))
_NOTHING = re.compile(rb"")
_NOT_BEHIND = frozenset(
    b"authorization cache-control connection content-encoding content-length content-range content-type cookie expect"
    b" forwarded host keep-alive max-forwards origin proxy-authorization proxy-connection range te trailer"
    b" transfer-encoding upgrade x-api-key x-forwarded-for".split()
)
_LINE_END = b"\r\n"
MAX_LINE_BYTES = 1024
MAX_EXTENSION_BYTES = 16 * 1024
MAX_TRAILERS = 32


class ChunkError(ValueError):
    """The bytes are no chunked body."""


class ChunkedBody:
    """`is_over` once the last chunk has come; `is_too_large` once it is sure to exceed what there is room for."""

    __slots__ = ("_extension_bytes", "_left_bytes", "_pending", "_trailers", "_wants", "is_over", "is_too_large")

    def __init__(self) -> None:
        self._pending = b""
        self._left_bytes = 0
        self._extension_bytes = 0
        self._trailers = 0
        self._wants = "size"
        self.is_over = False
        self.is_too_large = False

    def feed(self, data: bytes, room_bytes: int) -> tuple[list[bytes], bytes]:
        """Pieces of the body, and what follows it. Raises ChunkError."""
        pieces: list[bytes] = []
        while data and not self.is_over and not self.is_too_large:
            if self._wants == "content":
                piece, data = data[: self._left_bytes], data[self._left_bytes :]
                self._left_bytes -= len(piece)
                pieces.append(piece)
                if not self._left_bytes:
                    self._wants = "end"
            else:
                data = self._read_line(data)
                if self._wants == "content":
                    self.is_too_large = self._left_bytes > room_bytes - sum(map(len, pieces))
        return pieces, data

    def as_sent(self, body: bytes) -> bytes:
        """What another one must be fed to stand where this one does, `body` being what has come so far."""
        if self._wants == "content":
            return b"%x\r\n%b" % (len(body) + self._left_bytes, body)
        whole = b"%x\r\n%b" % (len(body), body) if body else b""
        if self._wants == "end":
            return whole + self._pending
        whole += _LINE_END if body else b""
        return whole + (b"0\r\n" if self._wants == "last" else b"") + self._pending

    def _read_line(self, data: bytes) -> bytes:
        data = self._pending + data
        end = data.find(_LINE_END, 0, MAX_LINE_BYTES)
        if end < 0:
            self._require_beginning(data)
            self._pending = data
            return b""
        self._pending = b""
        self._take_line(data[:end])
        return data[end + 2 :]

    def _require_beginning(self, data: bytes) -> None:
        """So that nonsense is refused at once, and at the same byte however it comes."""
        begun = {"size": _SIZE_BEGUN, "last": _FIELD_BEGUN, "end": _NOTHING}[self._wants]
        if len(data) >= MAX_LINE_BYTES or not begun.fullmatch(data.removesuffix(b"\r")):
            raise ChunkError(self._complaint())

    def _take_line(self, line: bytes) -> None:
        if self._wants == "size":
            self._take_size(line)
        elif self._wants == "last" and line:
            self._drop_trailer(line)
        elif line:
            raise ChunkError(self._complaint())
        elif self._wants == "last":
            self.is_over = True
        else:
            self._wants = "size"

    def _take_size(self, line: bytes) -> None:
        found = _SIZE_LINE.fullmatch(line)
        self._extension_bytes += len(found[2]) if found is not None else 0
        if found is None or self._extension_bytes > MAX_EXTENSION_BYTES:
            raise ChunkError(self._complaint())
        self._left_bytes = int(found[1], 16)
        self._wants = "content" if self._left_bytes else "last"

    def _drop_trailer(self, line: bytes) -> None:
        self._trailers += 1
        found = _FIELD.fullmatch(line)
        if found is None or found[1].lower() in _NOT_BEHIND or self._trailers > MAX_TRAILERS:
            raise ChunkError(self._complaint())

    def _complaint(self) -> bytes:
        return {
            "size": b"the size of a chunk is malformed",
            "end": b"a chunk is longer than its size",
            "last": b"a trailer is malformed, or one too many, or may not be one",
        }[self._wants]
