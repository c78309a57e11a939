"""Work that comes again and again, and what is waited for meanwhile."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger(__name__)


async def repeat(period_s: float, work: Callable[[], None]) -> None:
    """A failure of one round is logged, and the next round comes all the same."""
    while True:
        await asyncio.sleep(period_s)
        try:
            work()
        except Exception:
            logger.exception("periodic work failed")


async def first_of(stop: asyncio.Event, succeeded: asyncio.Event | None) -> None:
    waits = [asyncio.create_task(event.wait()) for event in (stop, succeeded) if event is not None]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


class Timer(Protocol):
    def cancel(self) -> None: ...
