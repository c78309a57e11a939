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


async def in_database_thread(call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    def run() -> R:
        close_old_connections()
        try:
            with every_tenant():  # agents' links and operators' live pages are no single tenant's
                return call(*args, **kwargs)
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(_threads, run)
