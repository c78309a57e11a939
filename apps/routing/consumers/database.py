"""Domain calls from the event loop: a few threads of their own, so that a slow database never stops the links."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import close_old_connections

from apps.common.rows import every_tenant

P = ParamSpec("P")
R = TypeVar("R")

_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="links")
# What goes down to the nodes never waits behind what a thousand of them have to say at once.
_looks = ThreadPoolExecutor(max_workers=1, thread_name_prefix="looks")
# That a node was heard waits for nobody: behind all that nodes say anew when they had been taken for silent, it came so
# late that they were taken for silent again, for ever.
_beats = ThreadPoolExecutor(max_workers=1, thread_name_prefix="beats")


async def in_database_thread(call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    return await _run(_threads, lambda: call(*args, **kwargs))


async def in_looking_thread(call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """For what all nodes wait for: reads, and quick ones."""
    return await _run(_looks, lambda: call(*args, **kwargs))


async def in_beating_thread(call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    return await _run(_beats, lambda: call(*args, **kwargs))


async def _run(threads: ThreadPoolExecutor, call: Callable[[], R]) -> R:
    def run() -> R:
        close_old_connections()
        try:
            with every_tenant():  # agents' links and operators' live pages are no single tenant's
                return call()
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(threads, run)
