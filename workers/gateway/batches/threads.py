"""The store, in a thread of its own: a disk may take its time, and streams must not wait for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from workers.gateway.batches.store import Store

P = ParamSpec("P")
T = TypeVar("T")


class StoreThread:
    """Calls come one after the other, in the order in which they are asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches")
        self._store: Store | None = None

    async def call(self, method: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(lambda store: method(store, *args, **kwargs))

    async def run(self, work: Callable[[Store], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: work(self._opened()))

    async def close(self) -> None:
        if self._store is not None:
            await self.call(Store.close)
        self._executor.shutdown(wait=False)

    def _opened(self) -> Store:
        """A database that cannot be opened now is tried again with the next call."""
        if self._store is None:
            self._store = Store(self._directory)
        return self._store
