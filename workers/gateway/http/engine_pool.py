"""The keep-alive connections to one engine that nobody uses at the moment."""

import asyncio
import ssl
from urllib.parse import urlsplit

from workers.gateway.http.turns import Turn
from workers.gateway.http.upstream import UpstreamConnection, UpstreamError

CONNECT_TIMEOUT_S = 3.0
MAX_IDLE_PER_ENGINE = 256


class EnginePool:
    """Connections to one engine. The one used last is used next, so that surplus ones grow old and are closed."""

    def __init__(self, base_url: str, turn: Turn) -> None:
        self.turn = turn
        parts = urlsplit(base_url)
        self._host = parts.hostname or "127.0.0.1"
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls is not None else 80)
        self.authority = f"{self._host}:{self._port}".encode()
        self.host_line = b"host: " + self.authority + b"\r\n"
        self._idle: list[UpstreamConnection] = []

    def take_idle(self) -> UpstreamConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.transport.is_closing():
                return connection
        return None

    async def connect(self) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await loop.create_connection(
                    lambda: UpstreamConnection(self), self._host, self._port, ssl=self._tls
                )
        except OSError as error:
            raise UpstreamError(f"cannot connect: {error}") from error
        return connection

    def put_back(self, connection: UpstreamConnection) -> None:
        if len(self._idle) < MAX_IDLE_PER_ENGINE:
            self._idle.append(connection)
        else:
            connection.transport.close()

    def forget(self, connection: UpstreamConnection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.transport.close()
