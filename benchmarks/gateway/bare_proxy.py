"""What no proxy in Python can be cheaper than: uvloop passes on what it reads, with or without httptools reading along.

`bare_proxy.py PORT parse|pass ENGINE_URL…`. Each client has an engine's connection to itself; nothing is understood,
chosen or counted. One read makes one write.
"""

import asyncio
import itertools
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httptools
import uvloop

BACKLOG = 4096


class Side(asyncio.Protocol):
    """One end of a client's way to its engine; `parser` reads along."""

    def __init__(self, parser: Any) -> None:
        self._feed = parser(self).feed_data if parser is not None else None
        self._waiting: list[bytes] = []
        self.other: Side | None = None
        self.transport: Any = None
        self.messages = 0

    def on_message_complete(self) -> None:
        self.messages += 1

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._feed is not None:
            self._feed(data)
        if self.other is not None:
            self.other.transport.write(data)
        else:
            self._waiting.append(data)

    def meet(self, other: "Side") -> None:
        self.other, other.other = other, self
        for data in self._waiting:
            other.transport.write(data)
        self._waiting = []

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self.other is not None:
            self.other.transport.close()


def accept(turns: Iterator[tuple[str, int]], *, parses: bool) -> Side:
    client = Side(httptools.HttpRequestParser if parses else None)
    asyncio.get_running_loop().create_task(_connect(client, *next(turns), parses=parses))
    return client


async def _connect(client: Side, host: str, port: int, *, parses: bool) -> None:
    parser = httptools.HttpResponseParser if parses else None
    _, engine = await asyncio.get_running_loop().create_connection(lambda: Side(parser), host, port)
    client.meet(engine)


async def main(port: int, mode: str, urls: list[str]) -> None:
    addresses = [(parts.hostname or "", parts.port or 80) for parts in map(urlsplit, urls)]
    turns = itertools.cycle(addresses)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: accept(turns, parses=mode == "parse"), "127.0.0.1", port, backlog=BACKLOG)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
