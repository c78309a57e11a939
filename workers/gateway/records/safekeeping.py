"""What is brought to the disk beside requests, each second and in a thread of its own: streams must not wait for it."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from workers.contracts.salvage import salvage_all
from workers.gateway.records.prompts import PromptKeeper
from workers.gateway.records.spool import Spool

logger = logging.getLogger(__name__)


class Safekeeping:
    """The spool in `directory` is synced, kept prompts are written, and what died gateways left there is salvaged."""

    def __init__(self, spool: Spool, prompts: PromptKeeper, directory: Path) -> None:
        self._spool = spool
        self._prompts = prompts
        self._directory = directory

    async def run(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            await asyncio.to_thread(self._look_after, self._spool.begin_sync())

    def salvage(self) -> None:
        """What gateways before this one had under way when they died."""
        try:
            salvage_all(self._directory)
        except OSError as error:
            logger.warning("records of a gateway that died wait: %s", error)

    def write_prompts(self) -> None:
        try:
            self._prompts.write()
        except OSError as error:
            logger.warning("prompts could not be kept: %s", error)

    def _look_after(self, finish_sync: Callable[[], None]) -> None:
        try:
            finish_sync()
        except OSError:
            logger.exception("the usage spool could not be synced")
        self.write_prompts()
        self.salvage()
