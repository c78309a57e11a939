"""Weights on their way to this node: one process for each source, and how far it has come."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from workers.agent.engines.memory import WeightsView
from workers.agent.storage.downloads import Progress
from workers.agent.storage.sources import (
    Source,
    arrived_bytes,
    fetch_command,
    lie_here,
    sources_of_adapters,
    with_local_sources,
)
from workers.agent.storage.weights import free_disk_bytes
from workers.contracts.desired import ReplicaSpec

log = logging.getLogger(__name__)

_GIB = 1024**3
_TAIL_BYTES = 2000
_PACE_AFTER_S = 10.0


class _Fetch(Struct):
    """`failed_at` None: it runs. `first` is how far it was, and when, at its first word."""

    progress: Progress | None = None
    first: tuple[int, float] | None = None
    problem: str = ""
    failed_at: float | None = None


class Fetches:
    """`environ` is what the processes inherit: it may name another hub, and the token to it."""

    def __init__(self, hub: Path, environ: Mapping[str, str], retry_s: float) -> None:
        self._hub = hub
        self._environ = dict(environ)
        self._retry_s = retry_s
        self._fetches: dict[Source, _Fetch] = {}
        self._tasks: dict[Source, asyncio.Task[None]] = {}

    def local_spec(self, spec: ReplicaSpec) -> ReplicaSpec:
        """With what lies here for its sources. Raises SpecRefusedError."""
        return with_local_sources(spec, self._hub)

    def look_at_all(self, spec: ReplicaSpec, sources: Sequence[Source], now: float) -> WeightsView | None:
        """Of the first that is not there; None when all are. Only of the weights it is known how big they are."""
        parts, alone = sources_of_adapters(spec) if sources else [], structs.replace(spec, weights_bytes=0)
        views = (self.look(alone if each in parts else spec, each, now) for each in sources)
        return next((view for view in views if view is not None), None)

    def look(self, spec: ReplicaSpec, source: Source, now: float) -> WeightsView | None:
        """None when they are there."""
        fetch = self._fetches.get(source)
        if fetch is not None and fetch.failed_at is None:
            return _on_its_way(fetch, now)
        if lie_here(self._hub, source):
            self._fetches.pop(source, None)
            return None
        free = free_disk_bytes(self._hub)
        if free is not None and spec.weights_bytes > free + arrived_bytes(self._hub, source):
            problem = (
                f"its weights are {spec.weights_bytes / _GIB:.1f} GiB, and {free / _GIB:.1f} GiB of the disk are free"
            )
            return WeightsView(problem=problem, is_fetching=True)
        if fetch is not None and fetch.failed_at is not None and now - fetch.failed_at < self._retry_s:
            return WeightsView(problem=fetch.problem, is_fetching=True)
        return WeightsView(detail="its weights are not on this node yet", problem=fetch.problem if fetch else "")

    def begin_next(self, sources: Sequence[Source], clock: float) -> None:
        """One after the other, as they are looked at."""
        missing = next((each for each in sources if not lie_here(self._hub, each)), None)
        if missing is not None:
            self.begin(missing, clock)

    def begin(self, source: Source, clock: float) -> None:
        """Two replicas of the same weights wait for one download. `clock` is now."""
        known = self._fetches.get(source)
        if known is not None and known.failed_at is None:
            return
        fetch = self._fetches[source] = _Fetch()
        task = self._tasks[source] = asyncio.create_task(self._run(source, fetch, clock))
        task.add_done_callback(lambda ended: self._forget(source, ended))

    def keep_only(self, wanted: set[Source]) -> None:
        """What nobody waits for any more ends. What has come of it stays."""
        for source, task in list(self._tasks.items()):
            if source not in wanted:
                task.cancel()
                self._fetches.pop(source, None)

    def _forget(self, source: Source, ended: asyncio.Task[None]) -> None:
        if self._tasks.get(source) is ended:
            del self._tasks[source]

    async def close(self) -> None:
        """What has come stays, and the next time goes on from there."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, source: Source, fetch: _Fetch, clock: float) -> None:
        began_at = asyncio.get_running_loop().time()
        log.info("fetching %s", source)
        try:
            problem = await self._fetch(source, fetch, clock - began_at)
        except (OSError, ValueError) as error:  # it could not be started, or says what is no line
            problem = str(error) or type(error).__name__
        if not problem:
            del self._fetches[source]
            return
        log.warning("%s was not fetched: %s", source, problem)
        fetch.problem = problem.splitlines()[-1]
        fetch.failed_at = clock + asyncio.get_running_loop().time() - began_at

    async def _fetch(self, source: Source, fetch: _Fetch, clock_ahead_s: float) -> str:
        """What it was that kept it from coming; "" when all of it is there."""
        command, pipe = fetch_command(self._hub, source), asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command.argv, env=self._environ, stdin=pipe, stdout=pipe, stderr=pipe
        )
        try:
            await _tell(process.stdin, command.told)
            async for line in _lines_of(process.stdout):
                with suppress(msgspec.DecodeError):
                    _note(fetch, line, clock_ahead_s + asyncio.get_running_loop().time())
            said = b"".join([line async for line in _lines_of(process.stderr)])[-_TAIL_BYTES:]
            has_come = await process.wait() == os.EX_OK
            return "" if has_come else said.decode(errors="replace").strip() or "the download ended without a word"
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _tell(stream: asyncio.StreamWriter | None, what: bytes) -> None:
    if stream is not None:
        with suppress(ConnectionError):
            stream.write(what)
            await stream.drain()
        stream.close()


def _note(fetch: _Fetch, line: bytes, now: float) -> None:
    fetch.progress = msgspec.json.decode(line, type=Progress)
    fetch.first = fetch.first or (fetch.progress.done_bytes, now)


async def _lines_of(stream: asyncio.StreamReader | None) -> AsyncIterator[bytes]:
    """None is no pipe, which has no lines."""
    if stream is not None:
        async for line in stream:
            yield line


def _on_its_way(fetch: _Fetch, now: float) -> WeightsView:
    if fetch.progress is None:
        return WeightsView(detail="asking what there is to fetch", is_fetching=True)
    done, total = fetch.progress.done_bytes, fetch.progress.total_bytes
    ratio = done / total if total else None
    detail = f"{done / _GIB:.2f} of {total / _GIB:.2f} GiB{_time_left(fetch, now)}"
    return WeightsView(detail=detail, ratio=ratio, is_fetching=True)


def _time_left(fetch: _Fetch, now: float) -> str:
    """By its pace so far; nothing while that is no more than a guess."""
    if fetch.first is None or fetch.progress is None or now - fetch.first[1] < _PACE_AFTER_S:
        return ""
    bytes_per_s = (fetch.progress.done_bytes - fetch.first[0]) / (now - fetch.first[1])
    if bytes_per_s <= 0:
        return ""
    left_s = (fetch.progress.total_bytes - fetch.progress.done_bytes) / bytes_per_s
    return f", about {left_s / 60:.0f} min left" if left_s >= 60 else ", less than a minute left"  # noqa: PLR2004 - seconds of a minute
