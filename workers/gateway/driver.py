"""Carries out the scheduler's commands, and tells it what happens."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from workers.contracts.endpoints import Endpoint
from workers.gateway.turns import Turn
from workers.gateway.upstream import EnginePool
from workers.scheduling.interface import Cancel, Command, EngineReport, Reject, Request
from workers.scheduling.scheduler import Scheduler


class Engine(Struct, eq=False):
    """An endpoint with its connections, and what was learned of it.

    `tokens_per_s` is the pace of one request there; 0 is unknown. `fingerprint` is as StreamFilter has it.
    """

    endpoint: Endpoint
    pool: EnginePool
    tokens_per_s: float = 0.0
    fingerprint: bytes | None = None

    def learn_pace(self, output_tokens: int, seconds: float) -> None:
        if output_tokens > 0 and seconds > 0:
            pace = output_tokens / seconds
            self.tokens_per_s = pace if not self.tokens_per_s else 0.8 * self.tokens_per_s + 0.2 * pace


class Scheduled(Protocol):
    """A request in the scheduler's hands."""

    def dispatched(self, engine: Engine) -> None: ...
    def refused(self, reject: Reject) -> None: ...
    def cancelled(self, cancel: Cancel) -> None: ...


class Driver:
    """The live driver of a `Scheduler`: engines by endpoint id, requests by the ids that it gives them."""

    def __init__(self, scheduler: Scheduler, monotonic: Callable[[], float], turn: Turn) -> None:
        self._scheduler = scheduler
        self._monotonic = monotonic
        self._turn = turn
        self._engines: dict[str, Engine] = {}
        self._scheduled: dict[int, Scheduled] = {}
        self._next_id = 0
        self._served_versions: frozenset[str] = frozenset()

    @property
    def scheduler(self) -> Scheduler:
        return self._scheduler

    @property
    def endpoints(self) -> list[Endpoint]:
        return [engine.endpoint for engine in self._engines.values()]

    def serves(self, version_id: str) -> bool:
        """Whether any engine is offered for it."""
        return version_id in self._served_versions

    def submit(
        self,
        owner: Scheduled,
        *,
        version_id: str,
        tenant_id: str,
        rank: int,
        max_queued: int,
        prompt_tokens: int = 0,
        ttft_slo_s: float | None = None,
        tpot_slo_s: float | None = None,
        tenant_weight: float = 1.0,
    ) -> int:
        """Returns the id for the calls below; `owner` may be called back before this returns."""
        self._next_id += 1
        now = self._monotonic()
        request = Request(
            request_id=self._next_id,
            version_id=version_id,
            tenant_id=tenant_id,
            rank=rank,
            max_queued_of_tenant=max_queued,
            arrived_at=now,
            prompt_tokens=prompt_tokens,
            ttft_slo_s=ttft_slo_s,
            tpot_slo_s=tpot_slo_s,
            tenant_weight=tenant_weight,
        )
        self._scheduled[request.request_id] = owner
        self._carry_out(self._scheduler.request_arrived(request, now))
        return request.request_id

    def first_token(self, request_id: int) -> None:
        self._carry_out(self._scheduler.first_token(request_id, self._monotonic()))

    def finished(self, request_id: int, output_tokens: int = 0) -> None:
        """`output_tokens` 0 is unknown."""
        del self._scheduled[request_id]
        self._carry_out(self._scheduler.request_finished(request_id, self._monotonic(), output_tokens))

    def withdrawn(self, request_id: int) -> None:
        del self._scheduled[request_id]
        self._carry_out(self._scheduler.request_withdrawn(request_id, self._monotonic()))

    def failed(self, request_id: int, *, may_retry: bool, generated_tokens: int = 0) -> None:
        """`generated_tokens` have gone out and can be continued from."""
        if not may_retry:
            del self._scheduled[request_id]
        commands = self._scheduler.request_failed(
            request_id, self._monotonic(), may_retry=may_retry, generated_tokens=generated_tokens
        )
        self._carry_out(commands)

    def tick(self) -> None:
        if self._scheduler.queued_total():
            self._carry_out(self._scheduler.tick(self._monotonic()))

    def reported(self, endpoint_id: str, report: EngineReport) -> None:
        """`report.taken_at` is on the driver's clock; an endpoint that is gone by now is ignored."""
        if endpoint_id in self._engines:
            self._carry_out(self._scheduler.endpoint_reported(endpoint_id, report, self._monotonic()))

    def set_endpoints(self, endpoints: list[Endpoint]) -> None:
        """Makes these the engines that may be sent to. What runs on one that is left out runs on."""
        offered = {endpoint.endpoint_id: endpoint for endpoint in endpoints}
        for endpoint_id in [known for known in self._engines if known not in offered]:
            self._lose(endpoint_id)
        self._served_versions = frozenset(e.version_id for e in offered.values() if not e.is_draining)
        for endpoint in offered.values():
            self._update(endpoint)

    def close_connections(self) -> None:
        """The idle ones; those in use end with their requests."""
        for engine in self._engines.values():
            engine.pool.close()

    def _update(self, endpoint: Endpoint) -> None:
        known = self._engines.get(endpoint.endpoint_id)
        if known is not None and known.endpoint == endpoint:
            return
        if known is not None and (known.endpoint.base_url, known.endpoint.version_id) != (
            endpoint.base_url,
            endpoint.version_id,
        ):
            self._lose(endpoint.endpoint_id)
            known = None
        pool = known.pool if known is not None else EnginePool(endpoint.base_url, self._turn)
        self._engines[endpoint.endpoint_id] = Engine(endpoint, pool)
        commands = self._scheduler.endpoint_updated(
            endpoint.endpoint_id,
            endpoint.version_id,
            endpoint.max_running_requests,
            self._monotonic(),
            is_draining=endpoint.is_draining,
        )
        self._carry_out(commands)

    def _lose(self, endpoint_id: str) -> None:
        self._engines.pop(endpoint_id).pool.close()
        self._scheduler.endpoint_lost(endpoint_id, self._monotonic())

    def _carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, Reject):
                self._scheduled.pop(command.request_id).refused(command)
            elif isinstance(command, Cancel):
                self._scheduled[command.request_id].cancelled(command)
            else:
                # Dispatch, or Migrate, which the owner that reported generated tokens knows what to do with.
                self._scheduled[command.request_id].dispatched(self._engines[command.endpoint_id])
