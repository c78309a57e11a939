"""An engine on several nodes: its parts meet at the leader's port, load together, and end when one of them is gone.

What vLLM's processes do over torch's store, without its tensors: a follower says its rank and run in a line and is let
in or sent away; from then on the open connection stands for it.
"""

import argparse
import asyncio
import logging
from contextlib import suppress

import msgspec
from msgspec import Struct

log = logging.getLogger("fake-engine")

_RETRY_S = 0.2
_LET_IN = b"in\n"


class PartLostError(Exception):
    """The message says which part of the engine is gone."""


class _Greeting(Struct):
    rank: int
    run: int


class Meeting:
    """The leader's side."""

    def __init__(self, count: int, run: int) -> None:
        self._wanted = set(range(1, count))
        self._run = run
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._complete = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._gone: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def open(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._receive, host, port)

    async def wait(self) -> None:
        """Until all parts are here."""
        await self._complete.wait()

    async def wait_for_a_loss(self) -> int:
        """The rank of the first part that was let in and is there no more."""
        return await self._gone

    async def close(self) -> None:
        if self._server:
            self._server.close()
        for writer in self._writers.values():
            writer.close()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rank = await self._let_in(reader, writer)
        if rank is None:
            writer.close()
            return
        with suppress(ConnectionError):
            await reader.read()
        if not self._gone.done():
            self._gone.set_result(rank)

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int | None:
        """Of this run, and each once: a part of a run before finds no place in this one."""
        try:
            greeting = msgspec.json.decode(await reader.readline(), type=_Greeting)
        except (msgspec.DecodeError, ConnectionError, ValueError):
            return None
        if greeting.run != self._run or greeting.rank not in self._wanted or greeting.rank in self._writers:
            log.warning("sent away part %d of run %d", greeting.rank, greeting.run)
            return None
        self._writers[greeting.rank] = writer
        writer.write(_LET_IN)
        if set(self._writers) == self._wanted:
            self._complete.set()
        return greeting.rank


async def follow(arguments: argparse.Namespace) -> None:
    """Until the leader is gone, which raises PartLostError; a leader that is not there yet is waited for."""
    while True:
        try:
            reader, writer = await asyncio.open_connection(arguments.master_addr, arguments.master_port)
        except OSError:
            await asyncio.sleep(_RETRY_S)
            continue
        writer.write(msgspec.json.encode(_Greeting(arguments.node_rank, arguments.run)) + b"\n")
        answer = b""
        with suppress(ConnectionError):
            answer = await reader.readline()
        if answer == _LET_IN:
            log.info("part %d of %d has met its leader", arguments.node_rank, arguments.nnodes)
            with suppress(ConnectionError):
                await reader.read()
            raise PartLostError("the leader is gone")
        writer.close()
        await asyncio.sleep(_RETRY_S)
