"""The gateway as a whole: its parts, its periodic work, its start and its stop."""

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from workers.contracts.decisions import RequestDecision
from workers.contracts.endpoints import Endpoint
from workers.contracts.ids import uuid7
from workers.contracts.snapshot import Snapshot
from workers.contracts.telemetry import GatewayReport
from workers.contracts.usage import UsageRecord
from workers.gateway import errors
from workers.gateway.assembly import Serving
from workers.gateway.batches.api import Limits as BatchLimits
from workers.gateway.batches.assembly import Batches
from workers.gateway.configuration import GatewayConfig
from workers.gateway.driving.clockwork import Clockwork
from workers.gateway.driving.explaining import DecisionNews, Explainer
from workers.gateway.driving.recurring import first_of, repeat
from workers.gateway.driving.watching import LOOK_EACH_S, EngineWatcher
from workers.gateway.front.leaving import drain, serve_out
from workers.gateway.http.handover import LISTEN_BACKLOG, listen
from workers.gateway.http.heads import RequestHead
from workers.gateway.http.requests import BodySink
from workers.gateway.http.server import ClientConnection
from workers.gateway.kv_events.reader import LOOK_EACH_S as CACHES_EACH_S
from workers.gateway.limits.link import Authority, AuthorityLink, ToldAuthority
from workers.gateway.observing.fullness import blocks_by_model, kv_used_by_model
from workers.gateway.observing.report import build_report
from workers.gateway.records.safekeeping import Safekeeping
from workers.gateway.sisters.company import Alone, Company, Parts
from workers.gateway.snapshots.directory import Directory
from workers.gateway.snapshots.files import EndpointsFile, SnapshotFile

logger = logging.getLogger(__name__)

WATCH_EVERY_S = 0.2
# Beside the ticks that the scheduler asks for: its bounds on time hold while nothing waits, too.
SCHEDULER_TICK_S = 0.25
# How exactly a salvager knows when we died, and with it how long engines had run for answers that it has to estimate.
BEAT_EVERY_S = 0.05
# Reasons to admit nothing that may end again.
_PASSING = {errors.SPOOL_UNAVAILABLE, errors.node_removed().code}


class GatewayService:
    def __init__(
        self,
        config: GatewayConfig,
        snapshot_file: SnapshotFile,
        endpoints_file: EndpointsFile | None,
        *,
        observers: Sequence[Callable[[UsageRecord], None]] = (),
        company: Company | None = None,
    ) -> None:
        """`observers` are shown each usage record, beside the metrics. Without `company` it serves alone."""
        self._config = config
        self._company = company or Alone(config.report_file)
        self._snapshot_file = snapshot_file
        self._endpoints_file = endpoints_file
        self._offered: list[Endpoint] = []
        self._own: list[Endpoint] = []
        randomness = random.Random(os.urandom(32))  # noqa: S311 - for ids that must be unique, not secret
        self.boot_id = uuid7(time.time(), randomness.getrandbits(74))
        self._take_parts(Serving(config, self.boot_id, randomness, observers))
        self._explainer = Explainer(time.monotonic, time.time)
        self._decision_news = DecisionNews(self.boot_id, self._explainer)
        self._watcher = EngineWatcher(self._driver, time.monotonic, self._turn)
        self._handle = self._company.join(self._parts())
        self._batches = self._build_batches(config.batches, randomness) if config.batches is not None else None
        self.beat_at = time.monotonic()
        self._is_stopping = self._is_removed = False
        self.report = self._build_report()

    def _take_parts(self, parts: Serving) -> None:
        self._connections, self._turn, self._surface = parts.connections, parts.turn, parts.surface
        self._journal, self._spool, self._meter = parts.journal, parts.spool, parts.meter
        self._driver, self._limits = parts.driver, parts.limits
        self._caches, self._prompts = parts.caches, parts.prompts
        self._neighbours = parts.neighbours
        self._tracing, self.metrics = parts.tracing, parts.metrics
        self._safekeeping = Safekeeping(parts.spool, parts.prompts, self._config.spool)

    async def run(
        self,
        stop: asyncio.Event,
        listening: socket.socket | None = None,
        succeeded: asyncio.Event | None = None,
        now_listens: Callable[[], None] = lambda: None,
    ) -> None:
        """Serves until `stop` is set, then lets streams end for `grace_s`; or until a successor has taken over."""
        self._safekeeping.salvage()
        self._adopt(self._snapshot_file.read_if_changed() or self._snapshot_file.load_last_good())
        self._watch_files()
        self.report = self._build_report()
        limits_link = AuthorityLink(self._limits, self._authority())
        server = await self._listen(listening)
        self._company.publish(self.report, None)
        now_listens()
        logger.info("gateway %s listens on %s:%s", self.boot_id, self._config.host, self._config.port)
        beside = self._start_beside(limits_link)
        clockwork = self._start_clockwork()
        await first_of(stop, succeeded)
        server.close()
        await self._leave(stop)
        clockwork.stop()
        for task in beside:
            task.cancel()
        await limits_link.close()
        await self._close()

    async def _listen(self, listening: socket.socket | None) -> asyncio.Server:
        handle, connections, turn, open_sink = self._handle, self._connections, self._turn, self._open_sink
        return await asyncio.get_running_loop().create_server(
            lambda: ClientConnection(handle, connections, turn, open_sink),
            sock=listening or listen(self._config.host, self._config.port),
            backlog=LISTEN_BACKLOG,
        )

    def _authority(self) -> Authority:
        own, told = self._company.authority(self._config.valkey_url, self.boot_id), self._config.limits_file
        return own if told is None else ToldAuthority(told, self.boot_id, own)

    def _start_beside(self, limits_link: AuthorityLink) -> list[asyncio.Task[None]]:
        if self._batches is not None:
            self._batches.start()
        if self._tracing is not None:
            self._tracing.exporter.start()
        return [
            asyncio.create_task(self._safekeeping.run()),
            asyncio.create_task(repeat(CACHES_EACH_S, self._caches.look)),
            asyncio.create_task(limits_link.run()),
        ]

    def _start_clockwork(self) -> Clockwork:
        clockwork = Clockwork(BEAT_EVERY_S, asyncio.get_running_loop().call_later)
        clockwork.each(BEAT_EVERY_S, self._journal.beat)
        clockwork.each(LOOK_EACH_S, self._watcher.look)
        clockwork.each(WATCH_EVERY_S, self._watch_files)
        clockwork.each(SCHEDULER_TICK_S, self._tick)
        clockwork.each(1.0, self._each_second)
        clockwork.start()
        return clockwork

    async def _leave(self, stop: asyncio.Event) -> None:
        self._is_stopping = True
        self.report = self._build_report()
        if self._batches is not None:
            self._batches.begin_stop()
        self._company.begin_leaving(has_successor=not stop.is_set())
        self._offer_endpoints()
        if not stop.is_set():
            logger.info("gateway %s is succeeded and serves out %s connections", self.boot_id, len(self._connections))
            grace_s = self._config.handover_grace_s
            await serve_out(self._connections, stop, grace_s, may_get_more=self._company.may_get_more)
        await drain(self._surface, self._connections, self._limits, self._config.grace_s)
        if self._batches is not None:
            await self._batches.stop()

    async def _close(self) -> None:
        self._driver.close_connections()
        self._watcher.close()
        self._caches.close()
        self._neighbours.close()
        self._turn.end()
        self._each_second()
        self._safekeeping.write_prompts()
        self._spool.close()
        self._journal.close()
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.exporter.stop)

    def explain(self, request_id: str) -> RequestDecision | None:
        """What is remembered of it: why it went where it went."""
        trail = self._driver.trails.find(request_id)
        return self._explainer.explain(trail) if trail is not None else None

    # -- periodic work

    def _tick(self) -> None:
        self.beat_at = time.monotonic()
        self._driver.tick()

    def _watch_files(self) -> None:
        self._adopt(self._snapshot_file.read_if_changed())
        offered = self._endpoints_file.read_if_changed() if self._endpoints_file is not None else None
        if offered is not None:
            self._offered = offered
        self._offer_endpoints()

    def _adopt(self, snapshot: Snapshot | None) -> None:
        if snapshot is None:
            return
        previous = self._surface.directory
        self._surface.directory = directory = Directory(snapshot, previous)
        self._driver.weights_changed(directory.reweighed_since(previous))
        self._limits.adopt(snapshot.limits)
        self._prompts.adopt(snapshot.prompt_key)
        self._driver.tell_stranded()
        logger.info("snapshot generation %s is active", snapshot.generation)

    def _offer_endpoints(self) -> None:
        """Where something has changed; of those of the gateway the ones that this process sends to."""
        own = self._company.owned(self._list_endpoints())
        if own != self._own:
            self._own = own
            self._driver.set_endpoints(own)

    def _list_endpoints(self) -> list[Endpoint]:
        directory = self._surface.directory
        fixed = directory.snapshot.endpoints if directory is not None else []
        return [*fixed, *self._offered]

    def _each_second(self) -> None:
        self._spool.retry()
        standing = self._surface.stop_reason
        if standing is None or standing.code in _PASSING:
            self._surface.stop_reason = self._reason_to_stand()
        self._sweep()
        self.report = self._build_report()
        self.metrics.in_flight = self._surface.in_flight()
        self.metrics.kv_used = kv_used_by_model(self._surface.directory, self._driver.engines)
        self.metrics.kv_blocks = blocks_by_model(self._surface.directory, self._driver.engines)
        self.metrics.dropped_prompts = self._prompts.dropped
        news = self._decision_news.take(self._driver.trails)
        self._company.publish(self.report, news)

    def _reason_to_stand(self) -> errors.GatewayError | None:
        self._is_removed = self._config.is_node_removed()
        if self._is_removed:
            return errors.node_removed()
        is_recording = self._spool.is_accepting and self._journal.has_room()
        return None if is_recording else errors.spool_unavailable()

    def _sweep(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            connection.sweep(
                now, idle_s=self._config.idle_s, request_s=self._config.request_s, stall_s=self._config.stall_s
            )
        for exchange in list(self._surface.exchanges):
            is_asking = not exchange.is_waiting and not exchange.is_client_stalled
            if is_asking and now - exchange.last_progress_at > self._config.engine_silence_s:
                exchange.give_up(errors.engine_timed_out())

    # -- its parts

    def _build_batches(self, directory: Path, randomness: random.Random) -> Batches:
        return Batches(
            directory,
            self._surface,
            node_id=self._config.node_id,
            neighbours=self._neighbours,
            turn=self._turn,
            spool=self._spool,
            connections=self._connections,
            monotonic=time.monotonic,
            unix_time=time.time,
            randomness=randomness,
            limits=BatchLimits(max_file_bytes=self._config.max_file_bytes),
            company=self._company,
            list_endpoints=self._list_endpoints,
        )

    def _parts(self) -> Parts:
        return Parts(
            surface=self._surface,
            connections=self._connections,
            turn=self._turn,
            figures=self.metrics.sisters,
            open_connection=lambda handle: ClientConnection(handle, self._connections, self._turn, self._open_sink),
        )

    def _open_sink(self, client: ClientConnection, head: RequestHead) -> BodySink | None:
        return self._batches.open_sink(client, head) if self._batches is not None else None

    def _build_report(self) -> GatewayReport:
        return build_report(
            gateway_id=self._config.gateway_id,
            boot_id=self.boot_id,
            directory=self._surface.directory,
            driver=self._driver,
            meter=self._meter,
            snapshot_error=self._snapshot_file.error,
            spool_error=self._spool.error or self._journal.error,
            limits_error=self._limits.figures.error,
            is_stopping=self._is_stopping or self._is_removed,
            now=time.monotonic(),
        )
