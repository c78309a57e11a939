"""Weights on their way to this node: one process for each repository, and how far it has come."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from workers.agent.fetching import Progress
from workers.agent.memory import WeightsView
from workers.agent.weights import free_disk_bytes, has_weights
from workers.contracts.desired import ReplicaSpec
from workers.engines.interface import WeightsSource

log = logging.getLogger(__name__)

_GIB = 1024**3
_TAIL_BYTES = 2000


class _Fetch(Struct):
    """`failed_at` None: it runs."""

    progress: Progress | None = None
    problem: str = ""
    failed_at: float | None = None


class Fetches:
    """`environ` is what the processes inherit: it may name another hub, and the token to it."""

    def __init__(self, hub: Path, environ: Mapping[str, str], retry_s: float) -> None:
        self._hub = hub
        self._environ = dict(environ)
        self._retry_s = retry_s
        self._fetches: dict[WeightsSource, _Fetch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self, spec: ReplicaSpec, source: WeightsSource, now: float) -> WeightsView | None:
        """None when they are there."""
        fetch = self._fetches.get(source)
        if fetch is not None and fetch.failed_at is None:
            return _on_its_way(fetch)
        if has_weights(self._hub, source.repository, source.revision):
            self._fetches.pop(source, None)
            return None
        free = free_disk_bytes(self._hub)
        if free is not None and spec.weights_bytes > free:
            problem = (
                f"its weights are {spec.weights_bytes / _GIB:.1f} GiB, and {free / _GIB:.1f} GiB of the disk are free"
            )
            return WeightsView(problem=problem, is_fetching=True)
        if fetch is not None and fetch.failed_at is not None and now - fetch.failed_at < self._retry_s:
            return WeightsView(problem=fetch.problem, is_fetching=True)
        return WeightsView(detail="its weights are not on this node yet", problem=fetch.problem if fetch else "")

    def begin(self, source: WeightsSource, clock: float) -> None:
        """Two replicas of the same weights wait for one download. `clock` is now."""
        known = self._fetches.get(source)
        if known is not None and known.failed_at is None:
            return
        fetch = self._fetches[source] = _Fetch()
        task = asyncio.create_task(self._run(source, fetch, clock))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """What has come stays, and the next time goes on from there."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, source: WeightsSource, fetch: _Fetch, clock: float) -> None:
        began_at = asyncio.get_running_loop().time()
        command = [sys.executable, "-m", "workers.agent.fetching", "--repository", source.repository]
        command += ["--revision", source.revision, "--hub", str(self._hub)]
        log.info("fetching %s", source.repository)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, env=self._environ, stdout=pipe, stderr=pipe)
        try:
            async for line in _lines_of(process.stdout):
                with suppress(msgspec.DecodeError):
                    fetch.progress = msgspec.json.decode(line, type=Progress)
            problem = b"".join([line async for line in _lines_of(process.stderr)])[-_TAIL_BYTES:].decode(
                errors="replace"
            )
            if await process.wait() == os.EX_OK:
                del self._fetches[source]
                return
            log.warning("%s was not fetched: %s", source.repository, problem)
            fetch.problem = (problem.strip().splitlines() or ["the download ended without a word"])[-1]
            fetch.failed_at = clock + asyncio.get_running_loop().time() - began_at
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _lines_of(stream: asyncio.StreamReader | None) -> AsyncIterator[bytes]:
    """None is no pipe, which has no lines."""
    if stream is not None:
        async for line in stream:
            yield line


def _on_its_way(fetch: _Fetch) -> WeightsView:
    if fetch.progress is None:
        return WeightsView(detail="asking what there is to fetch", is_fetching=True)
    done, total = fetch.progress.done_bytes, fetch.progress.total_bytes
    ratio = done / total if total else None
    return WeightsView(detail=f"{done / _GIB:.2f} of {total / _GIB:.2f} GiB", ratio=ratio, is_fetching=True)
