"""One attempt of a request at one engine: the connection, a new one where the kept one was stale, and its end."""

import asyncio
from typing import Protocol

from workers.gateway.engines import Engine
from workers.gateway.upstream import AnswerReader, UpstreamConnection, UpstreamError


class Asker(AnswerReader, Protocol):
    """Whose request it is. It hears nothing of an attempt that it abandoned."""

    @property
    def is_client_stalled(self) -> bool: ...


class Attempt:
    """`was_asked`: the engine may have begun to generate."""

    __slots__ = ("_asker", "_connecting", "_message", "_upstream", "engine", "was_asked")

    def __init__(self, engine: Engine, message: bytes, asker: Asker) -> None:
        self.engine = engine
        self.was_asked = False
        self._message = message
        self._asker: Asker | None = asker
        self._upstream: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None

    def begin(self) -> None:
        connection = self.engine.pool.take_idle()
        if connection is not None:
            self._ask(connection)
        else:
            self._connecting = asyncio.create_task(self._connect())

    def failed(self) -> bool:
        """False when it goes on: the engine had only closed a kept connection while it was idle."""
        upstream, self._upstream = self._upstream, None
        if upstream is None or not upstream.was_used:
            self._asker = None
            return True
        self._connecting = asyncio.create_task(self._connect())
        return False

    def ended(self) -> None:
        self._upstream = self._asker = None

    def abandon(self) -> None:
        """The engine sees that nobody waits any more."""
        if self._connecting is not None:
            self._connecting.cancel()
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.abandon()
        self._asker = None

    def pause(self) -> None:
        if self._upstream is not None:
            self._upstream.transport.pause_reading()

    def resume(self) -> None:
        if self._upstream is not None:
            self._upstream.transport.resume_reading()

    async def _connect(self) -> None:
        try:
            connection = await self.engine.pool.connect()
        except UpstreamError as error:
            self._connecting = None
            if self._asker is not None:
                self._asker.answer_failed(error)
            return
        self._connecting = None
        self._ask(connection)

    def _ask(self, connection: UpstreamConnection) -> None:
        asker = self._asker
        assert asker is not None, "who abandons it cancels the connecting"  # noqa: S101 - an invariant
        self._upstream = connection
        self.was_asked = True
        connection.ask(self._message, asker)
        if asker.is_client_stalled:
            connection.transport.pause_reading()
