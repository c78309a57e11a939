"""What serves a request, put together: from the connections to the spool."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence

from workers.contracts.settlement import Origin
from workers.contracts.usage import UsageRecord
from workers.gateway.configuration import GatewayConfig
from workers.gateway.driving.driver import Driver
from workers.gateway.front.neighbours import Neighbours
from workers.gateway.front.surface import Surface
from workers.gateway.http.connections import Connections
from workers.gateway.http.turns import Turn
from workers.gateway.kv_events.reader import CacheReader
from workers.gateway.limits.admission import Limits
from workers.gateway.observing.metrics import RequestMetrics
from workers.gateway.records.journal import Journal
from workers.gateway.records.metering import Meter
from workers.gateway.records.prompts import PromptKeeper
from workers.gateway.records.spool import Spool
from workers.gateway.tracing.assembly import Tracing
from workers.scheduling.interface import SchedulerConfig
from workers.scheduling.scheduler import Scheduler


class Serving:
    """`observers` are shown each usage record, beside the metrics and traces."""

    def __init__(
        self,
        config: GatewayConfig,
        boot_id: str,
        randomness: random.Random,
        observers: Sequence[Callable[[UsageRecord], None]],
    ) -> None:
        origin = Origin(gateway_id=config.gateway_id, boot_id=boot_id, node_id=config.node_id)
        self.connections = Connections(config.max_connections, config.max_connections_per_key)
        self.journal = Journal(config.spool, origin, time.monotonic)
        self.spool = Spool(config.spool, boot_id, self.journal)
        self.turn = Turn(self.spool, asyncio.get_running_loop().call_soon, time.monotonic)
        self.metrics = RequestMetrics()
        self.limits = Limits(monotonic=time.monotonic, unix_time=time.time)
        self.tracing = self._build_tracing(config, randomness)
        self.meter = self._build_meter(origin, randomness, observers)
        self.driver = self._build_driver(config)
        self.caches = CacheReader(self.driver, time.monotonic, config.caches)
        self.prompts = PromptKeeper(config.prompts, boot_id)
        self.surface = self._build_surface(randomness)
        self.neighbours = self.surface.intake.neighbours = self._build_neighbours(config.node_id)
        self.metrics.limits = self.limits.figures
        self.metrics.kv_events = self.caches.figures

    def _build_neighbours(self, node_id: str) -> Neighbours:
        return Neighbours(node_id, self.turn, self._gateway_urls, self._peer_secret, time.time)

    def _gateway_urls(self) -> dict[str, str]:
        directory = self.surface.directory
        return directory.gateway_urls if directory is not None else {}

    def _peer_secret(self) -> str:
        directory = self.surface.directory
        return directory.snapshot.peer_secret if directory is not None else ""

    def _build_tracing(self, config: GatewayConfig, randomness: random.Random) -> Tracing | None:
        if config.tracing is None:
            return None
        return Tracing(
            config.tracing,
            self.metrics.spans,
            gateway_id=config.gateway_id,
            monotonic=time.monotonic,
            random_bits=randomness.getrandbits,
        )

    def _build_meter(
        self, origin: Origin, randomness: random.Random, observers: Sequence[Callable[[UsageRecord], None]]
    ) -> Meter:
        of_traces = [self.tracing.tracer.observe] if self.tracing is not None else []
        return Meter(
            self.turn,
            origin=origin,
            monotonic=time.monotonic,
            unix_time=time.time,
            randomness=randomness,
            observers=(self.metrics.observe, *of_traces, *observers),
            settled=self.limits.settled,
        )

    def _build_driver(self, config: GatewayConfig) -> Driver:
        return Driver(
            Scheduler(SchedulerConfig(stall_after_s=config.engine_stall_s)),
            time.monotonic,
            self.turn,
            time.time,
            lambda delay_s, work: asyncio.get_running_loop().call_later(delay_s, work),
        )

    def _build_surface(self, randomness: random.Random) -> Surface:
        surface = Surface(
            driver=self.driver,
            meter=self.meter,
            limits=self.limits,
            journal=self.journal,
            connections=self.connections,
            monotonic=time.monotonic,
            unix_time=time.time,
            randomness=randomness,
            count_unrecorded=self.metrics.count_unrecorded,
        )
        surface.intake.prompts = self.prompts
        surface.intake.caches = self.caches
        if self.tracing is not None:
            surface.intake.tracer = self.tracing.tracer
        return surface
