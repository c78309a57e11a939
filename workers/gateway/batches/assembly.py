"""The parts of Files and Batch, put together for a gateway."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from pathlib import Path

from workers.gateway.batches.api import BatchAPI
from workers.gateway.batches.errands import Errands
from workers.gateway.batches.runner import Engines, Runner
from workers.gateway.batches.threads import StoreThread
from workers.gateway.connections import Connections
from workers.gateway.spool import Spool
from workers.gateway.surface import Surface
from workers.gateway.turns import Turn

STOP_TIMEOUT_S = 5.0


class Batches:
    """Kept in `directory`. `connections` are those that the gateway waits for when it stops."""

    def __init__(
        self,
        directory: Path,
        surface: Surface,
        *,
        node_id: str,
        turn: Turn,
        spool: Spool,
        connections: Connections,
        monotonic: Callable[[], float],
        unix_time: Callable[[], float],
        randomness: random.Random,
    ) -> None:
        self._store = StoreThread(directory)
        self._runner = Runner(
            self._store,
            Errands(surface, turn, connections, unix_time),
            look_at_engines=lambda: look_at_engines(surface),
            write_record=surface.meter.write_kept,
            is_recording=lambda: spool.is_accepting,
            monotonic=monotonic,
            unix_time=unix_time,
        )
        api = BatchAPI(
            self._store,
            node_id=node_id,
            wake=self._runner.wake,
            respond_error=surface.respond_error,
            unix_time=unix_time,
            randomness=randomness,
        )
        surface.own_paths[b"/v1/files"] = surface.own_paths[b"/v1/batches"] = api.answer
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = asyncio.create_task(self._runner.run())

    def begin_stop(self) -> None:
        """Nothing new is begun; what runs is the gateway's to end."""
        self._runner.is_stopping = True
        self._runner.wake()

    async def stop(self) -> None:
        """All that was answered is kept and recorded. The gateway has ended what was under way."""
        self.begin_stop()
        if self._running is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await self._running
        await self._store.close()


def look_at_engines(surface: Surface) -> Engines:
    """Whoever waits in a class before the last is somebody else."""
    driver, directory = surface.driver, surface.directory
    slots = sum(endpoint.max_running_requests for endpoint in driver.endpoints if not endpoint.is_draining)
    last = directory.lowest_rank if directory is not None else 0
    queued = driver.scheduler.queued_by_rank()
    return Engines(slots, sum(count for rank, count in queued.items() if rank < last))
