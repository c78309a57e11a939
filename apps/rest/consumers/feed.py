"""One look at the log of changes, twice a second, for all who watch by this process."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from django.db import Error as DatabaseError

from apps.rest.policies.positions import Position

log = logging.getLogger(__name__)

LOOK_EACH_S = 0.5

# The kinds that have changed after a position, and the position up to which it was looked.
Look = Callable[[Position | None], Awaitable[tuple[set[str], Position]]]


class ChangeFeed:
    """Wakes who watches a kind when there is news of it. It looks only while somebody watches."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._seen: Position | None = None

    @asynccontextmanager
    async def watching(self, kind: str) -> AsyncIterator[asyncio.Event]:
        news = asyncio.Event()
        self._watchers.setdefault(kind, set()).add(news)
        self._looking = self._looking or asyncio.create_task(self._run())
        try:
            yield news
        finally:
            self._watchers[kind].discard(news)
            if not any(self._watchers.values()):
                await self.close()

    def wake_all(self) -> None:
        for watchers in self._watchers.values():
            for news in watchers:
                news.set()

    async def close(self) -> None:
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
        self._watchers, self._seen = {}, None

    async def _run(self) -> None:
        while True:
            try:
                await self._turn()
            except DatabaseError as error:
                log.warning("a look for changes failed", extra={"error": str(error)})
            await asyncio.sleep(LOOK_EACH_S)

    async def _turn(self) -> None:
        """What came between a watcher's own look and the first one here is told by nothing: so that one wakes all."""
        is_first = self._seen is None
        kinds, self._seen = await self._look(self._seen)
        for kind in self._watchers if is_first else kinds:
            for news in self._watchers.get(kind, ()):
                news.set()
