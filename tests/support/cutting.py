"""A proxy before an engine that breaks streams off, as an engine that dies does."""

import asyncio
from contextlib import asynccontextmanager

from tests.support.closing import stop_accepting

EVENTS_BEFORE_THE_CUT = 9


@asynccontextmanager
async def cutting_proxy(engine_port):
    """Passes everything on, and breaks a stream off after some events."""

    opened = []

    async def serve(reader, writer):
        upstream, out = await asyncio.open_connection("127.0.0.1", engine_port)
        opened.extend((writer.transport, out.transport))
        asked = asyncio.create_task(pump(reader, out))
        passed = b""
        while passed.count(b"data: {") < EVENTS_BEFORE_THE_CUT and (piece := await upstream.read(65536)):
            passed += piece
            writer.write(piece)
        asked.cancel()
        for transport in (out.transport, writer.transport):
            transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await stop_accepting(server)
        server.close()
        for transport in opened:  # the gateway's own probes are kept alive
            transport.abort()
        await asyncio.sleep(0.1)


async def pump(reader, out):
    while piece := await reader.read(65536):
        out.write(piece)
