"""A chunked body, read strictly: sizes in hexadecimal without leading zeros, no extensions, no trailers."""

import re

_SIZE = re.compile(rb"0|[1-9A-Fa-f][0-9A-Fa-f]{0,7}")
_LINE_END = b"\r\n"
_MAX_SIZE_LINE_BYTES = 10


class ChunkError(ValueError):
    """The bytes are no chunked body."""


class ChunkedBody:
    """`is_over` once the last chunk has come; `is_too_large` once it is sure to exceed what there is room for."""

    __slots__ = ("_left_bytes", "_pending", "_wants", "is_over", "is_too_large")

    def __init__(self) -> None:
        self._pending = b""
        self._left_bytes = 0
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
        end = data.find(_LINE_END, 0, _MAX_SIZE_LINE_BYTES)
        if end < 0:
            self._require_beginning(data)
            self._pending = data
            return b""
        self._pending = b""
        self._take_line(data[:end])
        return data[end + 2 :]

    def _require_beginning(self, data: bytes) -> None:
        """So that nonsense is refused at once, and at the same byte however it comes."""
        line = data.removesuffix(b"\r")
        is_sound = not line if self._wants != "size" else not line or bool(_SIZE.fullmatch(line))
        if not is_sound or len(data) >= _MAX_SIZE_LINE_BYTES:
            raise ChunkError(self._complaint())

    def _take_line(self, line: bytes) -> None:
        if self._wants == "size":
            if not _SIZE.fullmatch(line):
                raise ChunkError(self._complaint())
            self._left_bytes = int(line, 16)
            self._wants = "content" if self._left_bytes else "last"
        elif line:
            raise ChunkError(self._complaint())
        elif self._wants == "last":
            self.is_over = True
        else:
            self._wants = "size"

    def _complaint(self) -> bytes:
        return {
            "size": b"the size of a chunk is malformed",
            "end": b"a chunk is longer than its size",
            "last": b"trailers are not taken",
        }[self._wants]
