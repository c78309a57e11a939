"""The answer to a request for a file: as fast as the client takes it, and no faster."""

import asyncio
from pathlib import Path

from workers.gateway.http.heads import Headers, header_lines
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection

PIECE_BYTES = 256 * 1024


class FileSending:
    """Owns the answer. `is_wanted` until the client has left or the answer has begun."""

    def __init__(self, client: ClientConnection, request: HttpRequest) -> None:
        self.client = client
        self.is_wanted = True
        self._request = request
        self._may_write = asyncio.Event()
        self._may_write.set()

    def client_left(self) -> None:
        self.is_wanted = False
        self._may_write.set()

    def client_paused(self) -> None:
        self._may_write.clear()

    def client_resumed(self) -> None:
        self._may_write.set()

    def respond(self, headers: Headers, body: bytes) -> None:
        if self.is_wanted:
            self.is_wanted = False
            self.client.respond(200, headers, body)

    async def send(self, path: Path, size_bytes: int, headers: Headers) -> None:
        """A file that is deleted meanwhile is sent to its end."""
        with await asyncio.to_thread(path.open, "rb") as file:
            kind = (b"content-type", b"application/octet-stream")
            lines = header_lines([kind, (b"content-length", b"%d" % size_bytes), *headers])
            if self._request.method == b"HEAD":
                self.client.respond_with(200, lines, b"")
                return
            self.client.write(self.client.head(200, lines))
            left_bytes = size_bytes
            while left_bytes > 0 and not self.client.is_gone:
                await self._may_write.wait()
                piece = await asyncio.to_thread(file.read, min(PIECE_BYTES, left_bytes))
                left_bytes -= len(piece)
                self.client.write(piece)
                await asyncio.sleep(0)  # it is written at the end of the turn
        if not self.client.is_gone:
            self.client.response_done()
