"""The engines that may be sent to, and what the scheduler is told of them."""

from collections import Counter
from collections.abc import Callable

from workers.contracts.endpoints import Endpoint
from workers.engines.interface import EngineReading
from workers.gateway.attempts.engines import Engine
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.turns import Turn
from workers.scheduling.interface import Command, EngineReport, KVChange
from workers.scheduling.scheduler import Scheduler


class Roster:
    """By endpoint id. `offered_to` counts the engines of a version that may be sent to.

    What changes something returns the scheduler's commands; an engine that is no longer known changes nothing.
    """

    def __init__(
        self, scheduler: Scheduler, monotonic: Callable[[], float], unix_time: Callable[[], float], turn: Turn
    ) -> None:
        self._scheduler = scheduler
        self._monotonic = monotonic
        self._unix_time = unix_time
        self._turn = turn
        self.engines: dict[str, Engine] = {}
        self.offered_to: Counter[str] = Counter()

    def set_endpoints(self, endpoints: list[Endpoint]) -> list[Command]:
        offered = {endpoint.endpoint_id: endpoint for endpoint in endpoints}
        for endpoint_id in [known for known in self.engines if known not in offered]:
            self._lose(endpoint_id)
        self.offered_to = Counter(e.version_id for e in offered.values() if e.is_warm and not e.is_draining)
        return [command for endpoint in offered.values() for command in self._update(endpoint)]

    def reported(self, engine: Engine, reading: EngineReading, taken_at: float) -> list[Command]:
        if not self._knows(engine):
            return []
        engine.reading = reading
        commands: list[Command] = []
        if reading.kv_capacity_tokens and reading.kv_capacity_tokens != engine.kv_capacity_tokens:
            engine.kv_capacity_tokens = reading.kv_capacity_tokens
            commands = self._tell(engine)
        report = EngineReport(
            taken_at=taken_at,
            running=reading.running_requests,
            waiting=reading.waiting_requests,
            kv_usage=reading.kv_used_ratio,
            steps_total=reading.steps_total,
            tokens_total=reading.generated_tokens_total,
        )
        return commands + self._scheduler.endpoint_reported(engine.endpoint.endpoint_id, report, self._monotonic())

    def cache_changed(self, endpoint_id: str, changes: list[KVChange]) -> list[Command]:
        if endpoint_id not in self.engines:
            return []
        return self._scheduler.prefixes_changed(endpoint_id, changes, self._monotonic())

    def close_connections(self) -> None:
        for engine in self.engines.values():
            engine.pool.close()

    def _knows(self, engine: Engine) -> bool:
        return self.engines.get(engine.endpoint.endpoint_id) is engine

    def _update(self, endpoint: Endpoint) -> list[Command]:
        known = self.engines.get(endpoint.endpoint_id)
        if known is not None and known.endpoint == endpoint:
            return []
        if known is not None and _is_elsewhere(known.endpoint, endpoint):
            self._lose(endpoint.endpoint_id)
            known = None
        if known is None:
            known = Engine(endpoint, EnginePool(endpoint.base_url, self._turn))
            self.engines[endpoint.endpoint_id] = known
        known.endpoint = endpoint
        return self._tell(known)

    def _tell(self, engine: Engine) -> list[Command]:
        endpoint = engine.endpoint
        return self._scheduler.endpoint_updated(
            endpoint.endpoint_id,
            endpoint.version_id,
            endpoint.max_running_requests,
            self._monotonic(),
            is_draining=endpoint.is_draining,
            spec=engine.spec(),
            warmth=endpoint.warmth,
            ready_in_s=None if endpoint.ready_at is None else endpoint.ready_at - self._unix_time(),
        )

    def _lose(self, endpoint_id: str) -> None:
        self.engines.pop(endpoint_id).pool.close()
        self._scheduler.endpoint_lost(endpoint_id, self._monotonic())


def _is_elsewhere(known: Endpoint, offered: Endpoint) -> bool:
    return (known.base_url, known.version_id) != (offered.base_url, offered.version_id)
