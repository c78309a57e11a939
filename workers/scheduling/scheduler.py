"""The scheduler: queues in front of the engines of a node, what runs next, and where."""

from math import inf

from workers.scheduling.endpoint import DEFAULT_SPEC, EndpointModel, EndpointSpec
from workers.scheduling.endpoint_spec import Warmth
from workers.scheduling.failures.recovery import Recovery
from workers.scheduling.failures.watch import Watch
from workers.scheduling.interface import Command, EngineReport, KVChange, Request, SchedulerConfig
from workers.scheduling.pool import LOOK_AHEAD_AT_TICK
from workers.scheduling.state import SchedulerState
from workers.scheduling.ticket import Ticket
from workers.scheduling.tuning import Tuning

TICK_S = 0.02


class Scheduler(SchedulerState):
    """Every event takes `now` (seconds, any monotonic origin) and returns the commands to carry out, in order.

    Each request that arrives ends in exactly one of: a Reject, `request_finished`, `request_withdrawn`, or
    `request_failed` without another attempt. What is told of a request that has ended, or of an endpoint that is
    gone, changes nothing: the two may cross on their way. Nor does an arrival of one that is there.
    """

    def __init__(
        self, config: SchedulerConfig | None = None, tuning: Tuning | None = None,
        usual_spec: EndpointSpec = DEFAULT_SPEC,
    ) -> None:  # fmt: skip
        """`usual_spec` is that of an endpoint that comes without one."""
        config = config or SchedulerConfig()
        super().__init__(config, tuning or Tuning())
        self._usual_spec = usual_spec
        self._recovery = Recovery(config)
        self._watch = Watch(config.stall_after_s, self._endpoints, self._queues)
        self._tick_at = -inf

    # -- events: requests

    def request_arrived(self, request: Request, now: float) -> list[Command]:
        """The request runs, waits, or is refused because a queue bound is reached or its deadline cannot be met."""
        if request.request_id in self._queues.tickets:
            return []
        self._watch.begin(now)
        return self._queues.arrive(request, now)

    def first_token(self, request_id: int, now: float) -> list[Command]:
        """The first piece of the answer has come from the engine."""
        ticket = self._queues.tickets.get(request_id)
        endpoint = None if ticket is None else ticket.endpoint
        if ticket is None or endpoint is None or ticket.first_token_at is not None:
            return []
        ticket.first_token_at = now
        endpoint.first_token(ticket, now)
        if not endpoint.spec.is_speed_known:
            self._queues.pool_of(endpoint.version_id, now).fleet.share_speed()
        endpoint.breaker.answered(ticket.number, now)
        endpoint.watchdog.progressed(now)
        return self._eased(endpoint, now)

    def progress(self, request_id: int, output_tokens: int, now: float) -> list[Command]:
        """The answer is this long by now: one that outgrows its prediction is expected to go on as long again."""
        ticket = self._queues.tickets.get(request_id)
        if ticket is not None and ticket.endpoint is not None:
            ticket.endpoint.watchdog.progressed(now)
            tokens_here = ticket.tokens_here(output_tokens)
            if tokens_here > ticket.output_tokens:
                ticket.endpoint.outgrown(ticket, float(tokens_here))
                self._queues.pool_of(ticket.version_id, now).settle(ticket, ticket.endpoint, output_tokens)
        return []

    def request_finished(self, request_id: int, now: float, output_tokens: int = 0) -> list[Command]:
        """The endpoint answered to the end; its slot is free again. `output_tokens` 0 is unknown."""
        ticket = self._queues.tickets.get(request_id)
        if ticket is None or ticket.endpoint is None:
            return self.request_withdrawn(request_id, now)
        del self._queues.tickets[request_id]
        request = ticket.request
        endpoint = self._release(ticket, ticket.endpoint, now)
        endpoint.breaker.answered(ticket.number, now)
        endpoint.watchdog.progressed(now)
        self._recovery.answered(ticket)
        self._queues.pool_of(endpoint.version_id, now).answered(ticket, endpoint, output_tokens, now)
        commands: list[Command] = []
        if request.workflow_id:
            self._queues.workflows.ended(request, output_tokens or int(ticket.output_tokens), ticket.cost_s)
            commands = self._queues.cut_off(self._queues.workflows.overspent(request), "workflow_budget", now)
        return commands + self._eased(endpoint, now)

    def request_withdrawn(self, request_id: int, now: float, output_tokens: int = 0) -> list[Command]:
        """The client left, or the driver gave up; the request was waiting, or running and had come so far.

        A tenant whose clients leave early pays for what they took, and not for the whole that they might have had.
        """
        ticket = self._queues.tickets.pop(request_id, None)
        if ticket is None:
            return []
        if ticket.endpoint is None:
            self._queues.gone(ticket)
            self._queues.dequeue(ticket)
            return []
        self._queues.pool_of(ticket.endpoint.version_id, now).settle(ticket, ticket.endpoint, output_tokens)
        self._queues.workflows.ended(ticket.request, output_tokens, ticket.cost_s)
        ticket.endpoint.breaker.withdrawn(ticket.number)
        return self._after(self._release(ticket, ticket.endpoint, now), now)

    def request_failed(
        self,
        request_id: int,
        now: float,
        *,
        may_retry: bool,
        generated_tokens: int = 0,
        retry_after_s: float | None = None,
    ) -> list[Command]:
        """The endpoint failed the request. With `may_retry` it runs again, or is rejected.

        `generated_tokens` > 0: so much of the answer has gone out already, and the driver can continue it elsewhere
        from the prompt plus what was generated; the next attempt comes as Migrate. Without `may_retry` they are what it
        is charged for. `retry_after_s` is what the engine itself asked for: it gets nothing for so long, and that is no
        failure of it.
        """
        ticket = self._queues.tickets.get(request_id)
        if ticket is None or ticket.endpoint is None:
            return []
        endpoint = self._release(ticket, ticket.endpoint, now)
        endpoint.breaker.failed(ticket.number, now, retry_after_s)
        self._queues.pool_of(endpoint.version_id, now).settle(ticket, endpoint, generated_tokens)
        commands = self._after(endpoint, now)
        if not may_retry:
            del self._queues.tickets[request_id]
            self._queues.workflows.ended(ticket.request, generated_tokens, ticket.cost_s)
            return commands
        ticket.go_on_after(generated_tokens)
        refusal = self._recovery.try_again(ticket, now)
        if refusal is not None:
            return [*commands, self._queues.forget(ticket, refusal[0], now, refusal[1])]
        return commands + self._queues.requeue(ticket, endpoint, now)

    def weight_changed(self, tenant_id: str, weight: float) -> None:
        """The tenant's weight was edited: what waits of it is charged by that from now on. Nothing is sent for it."""
        for pool in self._queues.pools.values():
            pool.set_weight(tenant_id, weight)

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
        warmth: Warmth = "warm",
        ready_in_s: float | None = None,
    ) -> list[Command]:
        """A new endpoint, or a change of a known one. What runs on it is left alone; without a spec so is its model.

        One that is not warm is sent nothing before `ready_in_s` from now; None: before it is said to be warm. One that
        comes with another version is another.
        """
        endpoint = self._endpoints.get(endpoint_id)
        if endpoint is not None and endpoint.version_id != version_id:
            self.endpoint_lost(endpoint_id, now)
            endpoint = None
        pool = self._queues.pool_of(version_id, now)
        if endpoint is None:
            endpoint = self._endpoints[endpoint_id] = EndpointModel(
                endpoint_id, version_id, pool.fleet.free_number(), max_running,
                spec=spec or self._usual_spec, breaker=self._recovery.breaker_of(endpoint_id),
            )  # fmt: skip
            endpoint.set_warmth(warmth, ready_in_s, now)
            endpoint.is_draining = is_draining
            pool.add_endpoint(endpoint, now)
        elif spec is not None:
            endpoint.adapt(spec)
            pool.endpoint_adapted(spec)
        endpoint.set_warmth(warmth, ready_in_s, now)
        endpoint.max_running = max_running
        endpoint.is_draining = is_draining
        pool.endpoint_changed(endpoint, now)
        return self._after(endpoint, now)

    def endpoint_reported(self, endpoint_id: str, report: EngineReport, now: float) -> list[Command]:
        """What the engine said of itself; it never changes our own counts."""
        endpoint = self._endpoints.get(endpoint_id)
        if endpoint is None:
            return []
        endpoint.reported(report.not_after(now))
        commands = self._watch.look_at(endpoint, now)
        pool = self._queues.pool_of(endpoint.version_id, now)
        pool.fleet.reported(endpoint, now)
        if pool.waiting and endpoint.opens_at <= now:
            commands += self._queues.fill(pool, now)
        return commands

    def report_noted(self, endpoint_id: str, report: EngineReport) -> None:
        """The same of one that came before `reports_matter_at`."""
        self._endpoints[endpoint_id].reported(report)

    def reports_matter_at(self) -> float:
        """From when on a report may change what is decided.

        Until then a driver may keep it back, as long as it is noted before the next event of its endpoint, and before
        the next request arrives: nobody waits, and no endpoint opens.
        """
        return -inf if self._queues.queued.total else self._queues.any_opens_at()

    def prefixes_changed(self, endpoint_id: str, changes: list[KVChange], now: float) -> list[Command]:
        """What the engine says of its cache, in order. From then on only its word counts for this endpoint."""
        endpoint = self._endpoints.get(endpoint_id)
        if endpoint is None:
            return []
        self._queues.pool_of(endpoint.version_id, now).fleet.index.changed(endpoint.number, changes)
        return self._after(endpoint, now)

    def drain_started(self, endpoint_id: str, now: float) -> list[Command]:
        """Nothing new is sent there; what runs there runs on."""
        endpoint = self._endpoints.get(endpoint_id)
        if endpoint is None:
            return []
        endpoint.is_draining = True
        return self._after(endpoint, now)

    def endpoint_lost(self, endpoint_id: str, now: float) -> list[Command]:
        """Nothing more is sent there; what runs there ends through the driver's own events."""
        endpoint = self._endpoints.pop(endpoint_id, None)
        if endpoint is not None:
            self._queues.pool_of(endpoint.version_id, now).remove_endpoint(endpoint, now)
            endpoint.breaker.forget_probe()
        return []

    # -- events: time

    def tick(self, now: float) -> list[Command]:
        """Takes up endpoints that open by themselves; refuses what has waited in vain; looks for engines that hang."""
        self._tick_at = now + TICK_S
        queues = self._queues
        commands = queues.cancel_lost(now)
        commands += self._watch.due(now)
        for version_id, pool in list(queues.pools.items()):
            is_usable = pool.note_usable(now)
            for ticket in pool.advance(now):
                commands += queues.refuse(ticket, "cannot_meet_deadline", now)
            commands += queues.fill(pool, now, LOOK_AHEAD_AT_TICK)
            if pool.waiting and not is_usable:
                commands += queues.reject_impatient(pool, now)
            if not pool.waiting and not pool.fleet.endpoints:
                del queues.pools[version_id]
        return commands + queues.degrade_waiting(now)

    def next_deadline(self) -> float | None:
        """When to tick at the latest; None while there is nothing to do. It may be past, and changes with any event."""
        due = self._watch.due_at if self.running_total() else inf
        if self._queues.queued.total:
            due = min(due, self._tick_at)
            due = min(due, self._queues.next_opening_at())
        return due if due < inf else None

    # -- slots

    def _release(self, ticket: Ticket, endpoint: EndpointModel, now: float) -> EndpointModel:
        ticket.endpoint = None
        self._queues.pool_of(endpoint.version_id, now).fleet.ended(ticket, endpoint)
        return endpoint

    def _after(self, endpoint: EndpointModel, now: float) -> list[Command]:
        """An endpoint has changed: it may take more now."""
        pool = self._queues.pool_of(endpoint.version_id, now)
        if self._endpoints.get(endpoint.endpoint_id) is endpoint:  # and not one that has come in its place
            pool.fleet.touch(endpoint, now)
        return self._queues.fill(pool, now) if pool.waiting and endpoint.opens_at <= now else []

    def _eased(self, endpoint: EndpointModel, now: float) -> list[Command]:
        """The same, when it can only take more by that."""
        pool = self._queues.pool_of(endpoint.version_id, now)
        if pool.waiting or endpoint.prefilling:
            return self._after(endpoint, now)
        if self._endpoints.get(endpoint.endpoint_id) is endpoint:  # and not one that has come in its place
            pool.fleet.eased(endpoint, now)
        return []
