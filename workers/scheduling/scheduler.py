"""The scheduler: queues in front of the engines of a node, what runs next, and where."""

from collections import deque
from math import inf

from workers.scheduling.counts import QueueCounts
from workers.scheduling.decision import Decision
from workers.scheduling.endpoint import DEFAULT_SPEC, EndpointModel, EndpointSpec
from workers.scheduling.interface import (
    Cancel,
    Command,
    Dispatch,
    EngineReport,
    Migrate,
    Reject,
    RejectCode,
    Request,
    SchedulerConfig,
)
from workers.scheduling.latency.lengths import LengthModel
from workers.scheduling.pool import LOOK_AHEAD, LOOK_AHEAD_AT_TICK, Pool
from workers.scheduling.ticket import Ticket
from workers.scheduling.tuning import Tuning
from workers.scheduling.workflows import Workflows

TICK_S = 0.02
SHORT_QUEUE = 8
"""Behind more than that, a newcomer waits for the next event: nothing has opened by its coming."""


class Scheduler:
    """Every event takes `now` (seconds, any monotonic origin) and returns the commands to carry out, in order.

    Each request that arrives ends in exactly one of: a Reject, `request_finished`, `request_withdrawn`, or
    `request_failed` without another attempt.
    """

    def __init__(self, config: SchedulerConfig, tuning: Tuning | None = None) -> None:
        self._config = config
        self._tuning = tuning or Tuning()
        self._lengths = LengthModel()
        self._workflows = Workflows()
        self._tickets: dict[int, Ticket] = {}
        self._endpoints: dict[str, EndpointModel] = {}
        self._pools: dict[str, Pool] = {}
        self._queued = QueueCounts()
        self._numbers = 0
        self._tick_at = -inf
        self._decisions: deque[Decision] = deque(maxlen=config.max_decisions)

    # -- events: requests

    def request_arrived(self, request: Request, now: float) -> list[Command]:
        """The request runs, waits, or is refused because a queue bound is reached or its deadline cannot be met."""
        self._numbers += 1
        ticket = Ticket(request, self._numbers)
        self._tickets[request.request_id] = ticket
        self._workflows.arrived(request, now)
        pool = self._pool_of(request.version_id, now)
        self._enqueue(ticket, pool, now)
        commands = self._fill(pool, now) if len(pool.waiting) <= SHORT_QUEUE else []
        if ticket.endpoint is None and self._queued.exceeds(request, self._config.max_queued_requests):
            commands.append(self._reject(ticket, "queue_full", now))
        return commands

    def first_token(self, request_id: int, now: float) -> list[Command]:
        """The first piece of the answer has come from the engine."""
        ticket = self._tickets[request_id]
        if ticket.endpoint is None or ticket.first_token_at is not None:
            return []
        ticket.first_token_at = now
        ticket.endpoint.first_token(ticket, now)
        return self._after(ticket.endpoint, now)

    def progress(self, request_id: int, output_tokens: int, now: float) -> list[Command]:
        """The answer is this long by now: one that outgrows its prediction is expected to go on as long again."""
        del now
        ticket = self._tickets[request_id]
        if ticket.endpoint is not None and output_tokens > ticket.output_tokens:
            ticket.endpoint.outgrown(ticket, float(output_tokens))
        return []

    def request_finished(self, request_id: int, now: float, output_tokens: int = 0) -> list[Command]:
        """The endpoint answered to the end; its slot is free again. `output_tokens` 0 is unknown."""
        ticket = self._tickets.pop(request_id)
        endpoint = self._release(ticket)
        endpoint.failures_in_a_row = 0
        endpoint.suspended_until = 0.0
        self._pools[endpoint.version_id].appraiser.answered(ticket, output_tokens, now)
        self._workflows.ended(ticket.request)
        return self._after(endpoint, now)

    def request_withdrawn(self, request_id: int, now: float) -> list[Command]:
        """The client left, or the driver gave up; the request was waiting or running."""
        ticket = self._tickets.pop(request_id)
        self._workflows.ended(ticket.request)
        if ticket.endpoint is None:
            self._dequeue(ticket)
            return []
        return self._after(self._release(ticket), now)

    def request_failed(
        self, request_id: int, now: float, *, may_retry: bool, generated_tokens: int = 0
    ) -> list[Command]:
        """The endpoint failed the request. With `may_retry` it runs again, or is rejected.

        `generated_tokens` > 0: so much of the answer has gone out already, and the driver can continue it elsewhere
        from the prompt plus what was generated; the next attempt comes as Migrate.
        """
        ticket = self._tickets[request_id]
        endpoint = self._release(ticket)
        self._suspend(endpoint, now)
        commands = self._after(endpoint, now)
        if may_retry and ticket.attempts < self._config.max_attempts:
            commands += self._requeue(ticket, endpoint, generated_tokens, now)
        elif may_retry:
            commands.append(self._forget(ticket, "attempts_exhausted", now))
        else:
            del self._tickets[request_id]
            self._workflows.ended(ticket.request)
        return commands

    # -- events: endpoints

    def endpoint_updated(
        self,
        endpoint_id: str,
        version_id: str,
        max_running: int,
        now: float,
        *,
        is_draining: bool,
        spec: EndpointSpec | None = None,
    ) -> list[Command]:
        """A new endpoint, or a change of a known one. What runs on it is left alone; without a spec so is its model."""
        pool = self._pool_of(version_id, now)
        endpoint = self._endpoints.get(endpoint_id)
        if endpoint is None:
            number = pool.fleet.free_number()
            endpoint = EndpointModel(endpoint_id, version_id, number, max_running, spec or DEFAULT_SPEC)
            self._endpoints[endpoint_id] = endpoint
            endpoint.is_draining = is_draining
            pool.add_endpoint(endpoint, now)
        endpoint.max_running = max_running
        endpoint.is_draining = is_draining
        if spec is not None:
            endpoint.adapt(spec)
        return self._after(endpoint, now)

    def endpoint_reported(self, endpoint_id: str, report: EngineReport, now: float) -> list[Command]:
        """What the engine said of itself; it never changes our own counts."""
        endpoint = self._endpoints[endpoint_id]
        endpoint.reported(report)
        return self._after(endpoint, now)

    def drain_started(self, endpoint_id: str, now: float) -> list[Command]:
        """Nothing new is sent there; what runs there runs on."""
        endpoint = self._endpoints[endpoint_id]
        endpoint.is_draining = True
        return self._after(endpoint, now)

    def endpoint_lost(self, endpoint_id: str, now: float = 0.0) -> None:
        """Nothing more is sent there; what runs there ends through the driver's own events."""
        endpoint = self._endpoints.pop(endpoint_id)
        self._pools[endpoint.version_id].remove_endpoint(endpoint, now)

    # -- events: time

    def tick(self, now: float) -> list[Command]:
        """Takes up endpoints that open by themselves; refuses what has waited in vain."""
        self._tick_at = now + TICK_S
        commands = self._cancel_lost(now)
        for version_id in list(self._pools):
            pool = self._pools[version_id]
            commands += [self._reject(ticket, "cannot_meet_deadline", now) for ticket in pool.advance(now)]
            commands += self._fill(pool, now, LOOK_AHEAD_AT_TICK)
            if pool.waiting and not pool.fleet.any_usable(now):
                commands += self._reject_impatient(pool, now)
            if not pool.waiting and not pool.fleet.endpoints:
                del self._pools[version_id]
        return commands

    def next_deadline(self) -> float | None:
        """When to tick at the latest; None while nobody waits."""
        opening_at = inf
        is_waiting = False
        for pool in self._pools.values():
            if pool.waiting:
                is_waiting = True
                opening_at = min(opening_at, pool.fleet.next_opening_at())
        return min(self._tick_at, opening_at) if is_waiting else None

    # -- state, for reports

    def queued_by_rank(self) -> dict[int, int]:
        return dict(self._queued.by_rank)

    def queued_total(self) -> int:
        return self._queued.total

    def running_total(self) -> int:
        return len(self._tickets) - self._queued.total

    def is_idle(self, endpoint_id: str) -> bool:
        return not self._endpoints[endpoint_id].running

    def take_decisions(self) -> list[Decision]:
        """Since the last call, the latest `max_decisions`."""
        taken = list(self._decisions)
        self._decisions.clear()
        return taken

    # -- slots

    def _pool_of(self, version_id: str, now: float) -> Pool:
        pool = self._pools.get(version_id)
        if pool is None:
            pool = self._pools[version_id] = Pool(self._tuning, self._lengths, self._workflows, now)
        return pool

    def _release(self, ticket: Ticket) -> EndpointModel:
        endpoint = ticket.endpoint
        assert endpoint is not None, "only a running request holds a slot"  # noqa: S101 - an invariant
        ticket.endpoint = None
        endpoint.ended(ticket)
        return endpoint

    def _suspend(self, endpoint: EndpointModel, now: float) -> None:
        pause_s = self._config.suspend_s * 2.0 ** min(endpoint.failures_in_a_row, 16)
        endpoint.suspended_until = now + min(pause_s, self._config.max_suspend_s)
        endpoint.failures_in_a_row += 1

    def _after(self, endpoint: EndpointModel, now: float) -> list[Command]:
        """An endpoint has changed: it may take more now."""
        pool = self._pools[endpoint.version_id]
        if endpoint.endpoint_id in self._endpoints:
            pool.fleet.touch(endpoint, now)
        return self._fill(pool, now) if pool.waiting and endpoint.opens_at <= now else []

    def _fill(self, pool: Pool, now: float, look_ahead: int = LOOK_AHEAD) -> list[Command]:
        commands: list[Command] = []
        for ticket, endpoint in pool.fill(now, look_ahead):
            self._queued.remove(ticket.request)
            self._decisions.append(pool.decision(ticket, "sent", now))
            command = Migrate if ticket.generated_tokens else Dispatch
            commands.append(command(ticket.request.request_id, endpoint.endpoint_id))
        return commands

    # -- queues

    def _enqueue(self, ticket: Ticket, pool: Pool, now: float) -> None:
        pool.arrive(ticket, now)
        self._queued.add(ticket.request)

    def _requeue(self, ticket: Ticket, failed_on: EndpointModel, generated_tokens: int, now: float) -> list[Command]:
        """It keeps its place: what it is judged by is its arrival."""
        ticket.failed_on = failed_on
        ticket.first_token_at = None
        ticket.generated_tokens = generated_tokens
        pool = self._pool_of(ticket.request.version_id, now)
        self._enqueue(ticket, pool, now)
        return self._fill(pool, now)

    def _dequeue(self, ticket: Ticket) -> None:
        self._pools[ticket.request.version_id].withdraw(ticket)
        self._queued.remove(ticket.request)

    # -- refusals

    def _reject(self, ticket: Ticket, code: RejectCode, now: float) -> Reject:
        """Of a waiting ticket."""
        self._dequeue(ticket)
        return self._forget(ticket, code, now)

    def _forget(self, ticket: Ticket, code: RejectCode, now: float) -> Reject:
        request = ticket.request
        del self._tickets[request.request_id]
        self._workflows.ended(request)
        pool = self._pools[request.version_id]
        self._decisions.append(pool.decision(ticket, "refused", now))
        if code == "attempts_exhausted":
            return Reject(request.request_id, code)
        retry_after_s = int(self._config.patience_s) if code == "no_endpoint" else pool.retry_after_s(now)
        return Reject(request.request_id, code, retry_after_s)

    def _reject_impatient(self, pool: Pool, now: float) -> list[Command]:
        oldest_welcome = now - self._config.patience_s
        impatient = [ticket for ticket in pool.waiting.values() if ticket.request.arrived_at < oldest_welcome]
        return [self._reject(ticket, "no_endpoint", now) for ticket in impatient]

    def _cancel_lost(self, now: float) -> list[Command]:
        """Calls of workflows that can no longer be in time."""
        commands: list[Command] = []
        for request_id in self._workflows.lost(now):
            ticket = self._tickets[request_id]
            if ticket.endpoint is None:
                commands.append(self._reject(ticket, "cannot_meet_deadline", now))
            else:
                commands.append(Cancel(request_id, "workflow_deadline"))
        return commands
