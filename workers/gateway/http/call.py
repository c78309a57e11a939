"""One question over one pool of connections: by a kept connection, by a new one where that was stale, and its end."""

import asyncio
from typing import Protocol

from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.upstream import AnswerReader, UpstreamConnection, UpstreamError


class Asker(AnswerReader, Protocol):
    """Whose question it is. It hears nothing of a call that it abandoned."""

    @property
    def is_client_stalled(self) -> bool: ...


class Call:
    """`was_asked`: whoever is asked may have begun to answer."""

    __slots__ = ("_asker", "_connecting", "_message", "_pool", "_upstream", "was_asked")

    def __init__(self, pool: EnginePool, message: bytes, asker: Asker) -> None:
        self._pool = pool
        self.was_asked = False
        self._message = message
        self._asker: Asker | None = asker
        self._upstream: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None

    def begin(self) -> None:
        connection = self._pool.take_idle()
        if connection is not None:
            self._ask(connection)
        else:
            self._connecting = asyncio.create_task(self._connect())

    def failed(self) -> bool:
        """False when it goes on: a kept connection had only been closed while it was idle."""
        upstream, self._upstream = self._upstream, None
        if upstream is None or not upstream.was_used:
            self._asker = None
            return True
        self._connecting = asyncio.create_task(self._connect())
        return False

    def ended(self) -> None:
        self._upstream = self._asker = None

    def abandon(self) -> None:
        """Whoever is asked sees that nobody waits any more."""
        if self._connecting is not None:
            self._connecting.cancel()
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.abandon()
        self._asker = None

    def give_up(self) -> None:
        """As `abandon`, but it looks as if the line had broken: somebody else is asked."""
        if self._upstream is not None:
            self._upstream.reset_when_closed()
        self.abandon()

    def hang_up(self, reader: AnswerReader) -> bool:
        """As `abandon`, but `reader` hears what was said until then, and the end. False: nothing was done."""
        if self._upstream is None or not self._upstream.hang_up(reader):
            return False
        self._asker = None
        return True

    def pause(self) -> None:
        if self._upstream is not None:
            self._upstream.transport.pause_reading()

    def resume(self) -> None:
        if self._upstream is not None:
            self._upstream.transport.resume_reading()

    async def _connect(self) -> None:
        try:
            connection = await self._pool.connect()
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
