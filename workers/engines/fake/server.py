"""Listens, stops listening when told to, and ends on SIGTERM as vLLM does: at once, open streams cut."""

import asyncio
import os
import time
import uuid
from collections.abc import Callable

from workers.engines.fake.engine import EngineOptions, FakeEngine
from workers.engines.fake.http import Connection
from workers.engines.fake.routes import Routes

_BACKLOG = 4096


class FakeServer:
    def __init__(self, options: EngineOptions, host: str, port: int, die: Callable[[int], None] = os._exit) -> None:
        loop = asyncio.get_running_loop()
        self.engine = FakeEngine(options, loop, time.time, die)
        self._host = host
        self._port = port
        self._loop = loop
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._routes = Routes(self.engine, loop, self.close_for, lambda: uuid.uuid4().hex[:16], time.time())

    @property
    def port(self) -> int:
        """The real one, when the port asked for was 0."""
        return self._port

    async def open(self) -> None:
        self._server = await self._loop.create_server(
            lambda: Connection(self._routes, self._connections), self._host, self._port, backlog=_BACKLOG
        )
        self._port = self._server.sockets[0].getsockname()[1]

    def close_for(self, seconds: float) -> None:
        """Connections are refused meanwhile; open ones live on."""
        if self._server:
            self._server.close()
        if self._reopening:
            self._reopening.cancel()
        self._reopening = self._loop.create_task(self._open_after(seconds))

    async def close(self) -> None:
        if self._reopening:
            self._reopening.cancel()
        if self._server:
            self._server.close()
        for connection in list(self._connections):
            connection.close()
        await asyncio.sleep(0)
        for connection in list(self._connections):  # whoever does not read would keep it for ever
            connection.reset()
        self.engine.close()

    async def _open_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.open()
