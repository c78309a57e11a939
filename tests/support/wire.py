"""A wire between two processes that can be cut and mended: what is on it then ends, and nobody gets through."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.support.closing import stop_accepting

_READ_BYTES = 64 * 1024


class Wire:
    def __init__(self, to_port: int) -> None:
        self.port = 0
        self._to_port = to_port
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._is_cut = False

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
            self._writers |= {writer, far_writer}
            await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_READ_BYTES):
                writer.write(data)
                await writer.drain()
        self._writers.discard(writer)
        writer.close()


@asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[Wire]:
    wire = Wire(port)
    server = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        await stop_accepting(server)
        wire.cut()
        server.close()
