"""An engine that says what it is told to say, piece by piece, and remembers what it was asked."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.closing import stop_accepting

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
PAUSE_S = 0.002


def whole(body: bytes, *, status: str = "200 OK", content_type: str = "application/json") -> list[bytes]:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    return [head.encode() + body]


def stream(pieces: Sequence[bytes]) -> list[bytes]:
    """Each piece is a chunk, and comes by itself."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    return [head, *(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]


@dataclass
class ScriptedEngine:
    """`script` is sent for every request; one that does not end closes the connection."""

    script: list[bytes]
    closes: bool = False
    port: int = 0
    seen: list[bytes] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if head.startswith(b"GET /") and b"/chat" not in head and b"/v1/" not in head:
                    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")  # a probe of ours
                    continue
                self.seen.append(head + body)
                for piece in self.script:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(PAUSE_S)
                if self.closes or b"connection: close" in head.lower():
                    break
        writer.close()


@asynccontextmanager
async def scripted_engine(script: list[bytes], *, closes: bool = False) -> AsyncIterator[ScriptedEngine]:
    engine = ScriptedEngine(script, closes)
    server = await asyncio.start_server(engine.serve, "127.0.0.1", 0)
    engine.port = server.sockets[0].getsockname()[1]
    try:
        yield engine
    finally:
        await stop_accepting(server)
        for writer in engine.writers:
            writer.transport.abort()
        server.close()
        await asyncio.sleep(0)
