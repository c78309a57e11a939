"""The parts of Files and Batch, put together for a gateway."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from pathlib import Path

from workers.contracts.endpoints import Endpoint
from workers.gateway.batches.api import BatchAPI, Limits
from workers.gateway.batches.errands import Errands
from workers.gateway.batches.peers import ITEMS, WITHDRAWALS, PeerErrands, PeerItems
from workers.gateway.batches.runner import Engines, Runner
from workers.gateway.batches.threads import StoreThread
from workers.gateway.errors import GatewayError
from workers.gateway.front.neighbours import Neighbours
from workers.gateway.front.surface import Surface
from workers.gateway.http.connections import Connections
from workers.gateway.http.heads import RequestHead
from workers.gateway.http.request_heads import RefusedRequestError
from workers.gateway.http.requests import MAX_BODY_BYTES, BodySink, HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.http.turns import Turn
from workers.gateway.records.spool import Spool
from workers.gateway.sisters.company import Company
from workers.gateway.snapshots.directory import Directory

STOP_TIMEOUT_S = 5.0
FILES = b"/v1/files"
BATCHES = b"/v1/batches"


class Batches:
    """Kept in `directory`. `connections` are those that the gateway waits for when it stops.

    `list_endpoints` gives those of all processes of the gateway.
    """

    def __init__(
        self,
        directory: Path,
        surface: Surface,
        *,
        node_id: str,
        neighbours: Neighbours,
        turn: Turn,
        spool: Spool,
        connections: Connections,
        monotonic: Callable[[], float],
        unix_time: Callable[[], float],
        randomness: random.Random,
        limits: Limits,
        company: Company,
        list_endpoints: Callable[[], list[Endpoint]],
    ) -> None:
        self._store = StoreThread(directory)
        self._surface = surface
        self._monotonic = monotonic
        self._running: asyncio.Task[None] | None = None
        own = company.asker(Errands(surface, turn, connections, unix_time))
        self._runner = Runner(
            self._store,
            PeerErrands(own, self._read_directory, neighbours, lambda each: _runs(each, list_endpoints()), unix_time),
            look_at_engines=lambda: look_at_engines(surface, list_endpoints(), company.others_waiting),
            write_record=surface.meter.write_kept,
            is_recording=lambda: spool.is_accepting,
            monotonic=monotonic,
            unix_time=unix_time,
        )
        self._api = BatchAPI(
            self._store,
            arrivals=directory / "files",
            node_id=node_id,
            neighbours=neighbours,
            wake=self._runner.wake,
            respond_error=surface.respond_error,
            unix_time=unix_time,
            randomness=randomness,
            limits=limits,
        )
        company.watch_arrivals(self._api.room)
        self._offer_paths(PeerItems(own, self._read_directory, unix_time))

    def _offer_paths(self, peers: PeerItems) -> None:
        self._surface.own_paths[FILES] = self._surface.own_paths[BATCHES] = self._api.answer
        self._surface.peer_paths |= {ITEMS: peers.take, WITHDRAWALS: peers.withdraw}

    def _read_directory(self) -> Directory | None:
        return self._surface.directory

    def open_sink(self, client: ClientConnection, head: RequestHead) -> BodySink | None:
        """Uploads go to the disk as they come. One without a key is read as any other request, while it is small."""
        if head.path != FILES or head.method != b"POST":
            return None
        request = HttpRequest(head, b"", self._monotonic(), keeps_alive=False)
        try:
            return self._api.open_sink(client, request, self._surface.authenticate(request))
        except GatewayError as error:
            if int(request.header(b"content-length") or 0) <= MAX_BODY_BYTES:
                return None
            raise RefusedRequestError(error.status, error.code.encode(), error.message.encode()) from error

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


def look_at_engines(surface: Surface, endpoints: list[Endpoint], waiting_elsewhere: int) -> Engines:
    """Whoever waits in a class before the last is somebody else, and so is who does in other processes."""
    slots = sum(one.max_running_requests for one in endpoints if one.is_warm and not one.is_draining)
    return Engines(slots, surface.queued_before_last() + waiting_elsewhere)


def _runs(version_id: str, endpoints: list[Endpoint]) -> bool:
    return any(endpoint.version_id == version_id for endpoint in endpoints)
