"""Carries out the scheduler's commands, and tells it what happens and what is known of requests and engines."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from workers.contracts.endpoints import Endpoint
from workers.contracts.recording import cost_pico_usd
from workers.contracts.settlement import NOTHING, Used
from workers.contracts.snapshot import TenantPolicy
from workers.engines.interface import EngineReading
from workers.gateway.attempts.engines import Engine
from workers.gateway.driving.batching import Batch
from workers.gateway.driving.estimates import Estimates
from workers.gateway.driving.flights import Flight, Flights, Scheduled
from workers.gateway.driving.recurring import Timer
from workers.gateway.driving.roster import Roster
from workers.gateway.driving.trails import Trails
from workers.gateway.driving.workflows import Workflows
from workers.gateway.http.turns import Turn
from workers.scheduling.interface import Cancel, Command, Dispatch, KVChange, Migrate, Reject, Suspect
from workers.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from workers.gateway.driving.terms import Terms

# Two events closer than this are one for the timer.
TIMER_GRAIN_S = 0.001


class Driver:
    """The live driver of a `Scheduler`: engines by endpoint id, requests by the ids that it gives them.

    `call_later` runs a function after so many seconds; without it somebody else has to `tick`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        monotonic: Callable[[], float],
        turn: Turn,
        unix_time: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], Timer] | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._monotonic = monotonic
        self._call_later = call_later
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._flights = Flights()
        self._batches: dict[tuple[str, int], Batch] = {}
        self._next_id = 0
        self._roster = Roster(scheduler, monotonic, unix_time, turn)
        self.estimates = Estimates()

    @property
    def scheduler(self) -> Scheduler:
        return self._scheduler

    @property
    def known_engines(self) -> list[Engine]:
        """Those that serve, and those that will."""
        return list(self._roster.engines.values())

    @property
    def engines(self) -> list[Engine]:
        """Those that serve."""
        return [engine for engine in self._roster.engines.values() if engine.endpoint.is_warm]

    @property
    def endpoints(self) -> list[Endpoint]:
        return [engine.endpoint for engine in self.engines]

    def serves(self, version_id: str) -> bool:
        """Whether any engine is offered for it."""
        return version_id in self._roster.offered_to

    def has_choice(self, version_id: str, others: int = 1) -> bool:
        """Whether there are more engines to choose from than those."""
        return self._roster.offered_to[version_id] > others

    @property
    def trails(self) -> Trails:
        return self._flights.trails

    @property
    def workflows(self) -> Workflows:
        return self._flights.workflows

    def count_running(self) -> Counter[str]:
        """By endpoint id."""
        return self._flights.count_running()

    def count_by_tenant(self) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
        """What waits and what runs, by tenant and class."""
        return self._flights.count_by_tenant()

    def note_elsewhere(self, queued: dict[str, int], spent: dict[str, tuple[int, int]]) -> None:
        """What other processes of the gateway have, and a tenant or a workflow with them."""
        self._flights.queued_elsewhere = queued
        for request_id in self.workflows.note_elsewhere(spent):
            self._cancel(Cancel(request_id, "workflow_budget"))

    def weights_changed(self, tenants: Iterable[TenantPolicy]) -> None:
        """Of what waits, too."""
        for tenant in tenants:
            for account, weight in self._flights.weights(tenant).items():
                self._scheduler.weight_changed(account, weight)

    # -- requests

    def submit(self, owner: Scheduled, terms: "Terms", label: str) -> int:
        """Returns the id for the calls below; `owner` may be called back before this returns."""
        self._next_id += 1
        now = self._monotonic()
        request = terms.request
        request.request_id = self._next_id
        flight = self._flights.open(owner, terms, label, now)
        self._carry_out(self._scheduler.request_arrived(request, now))
        if flight.engine is None and not flight.trail.is_over:
            flight.trail.add("queued", now)
        return request.request_id

    def first_token(self, request_id: int, at: float | None = None) -> None:
        """`at` is given where the engine tells it afterwards."""
        at = self._monotonic() if at is None else at
        flight = self._flights.by_id[request_id]
        flight.trail.add("first_token", at)
        self._carry_out(self._scheduler.first_token(request_id, at))

    def progress(self, request_id: int, output_tokens: int) -> None:
        """Of a long answer, now and then."""
        self._carry_out(self._scheduler.progress(request_id, output_tokens, self._monotonic()))

    def finished(self, request_id: int, used: Used = NOTHING) -> None:
        """The answer came to its end."""
        now = self._monotonic()
        flight = self._flights.take(request_id)
        if used.source == "engine":
            self.estimates.learn(flight.trail.tenant_id, flight.terms, used)
        self._flights.close(flight, "completed", now)
        self._carry_out(self._scheduler.request_finished(request_id, now, used.output_tokens))
        self._spend(flight, used)

    def withdrawn(self, request_id: int, used: Used = NOTHING) -> None:
        now = self._monotonic()
        flight = self._flights.take(request_id)
        self._flights.close(flight, "withdrawn", now)
        self._carry_out(self._scheduler.request_withdrawn(request_id, now, used.output_tokens))
        self._spend(flight, used)

    def failed(
        self,
        request_id: int,
        *,
        may_retry: bool,
        used: Used = NOTHING,
        generated_tokens: int = 0,
        retry_after_s: float | None = None,
    ) -> None:
        """`generated_tokens` have gone out and can be continued from; for `retry_after_s` the engine wants nothing."""
        now = self._monotonic()
        flight = self._flights.by_id[request_id]
        if may_retry:
            flight.trail.add("failed", now, flight.engine.endpoint.endpoint_id if flight.engine else "")
            flight.engine = None
        else:
            self._flights.take(request_id)
            self._flights.close(flight, "failed", now)
            generated_tokens = used.output_tokens
        self._carry_out(
            self._scheduler.request_failed(
                request_id, now, may_retry=may_retry, generated_tokens=generated_tokens, retry_after_s=retry_after_s
            )
        )
        self._spend(flight, used)

    # -- time

    def tick(self) -> None:
        """By the timer, or by whoever else has a clock: there is one timer all the same."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._carry_out(self._scheduler.tick(self._monotonic()))

    def _arm(self) -> None:
        """Sees to it that the scheduler is asked again when it wants to be."""
        if self._call_later is None:
            return
        deadline = self._scheduler.next_deadline()
        if deadline is None or (self._timer is not None and self._timer_at <= deadline + TIMER_GRAIN_S):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._call_later(max(TIMER_GRAIN_S, deadline - self._monotonic()), self.tick)

    # -- engines

    def set_endpoints(self, endpoints: list[Endpoint]) -> None:
        """Makes these the engines that may be sent to. What runs on one that is left out runs on."""
        self._carry_out(self._roster.set_endpoints(endpoints))
        self.tell_stranded()

    def tell_stranded(self) -> None:
        """Those that wait for what is not offered here: they may have another way."""
        for flight in self._flights.list_waiting():
            if not self.serves(flight.terms.version_id) and not flight.trail.is_over:
                flight.owner.stranded()

    def reported(self, engine: Engine, reading: EngineReading, taken_at: float) -> None:
        """`taken_at` is on the driver's clock. Of an engine that does not tell its cache own counts stand."""
        self._carry_out(self._roster.reported(engine, reading, taken_at))

    def cache_changed(self, endpoint_id: str, changes: list[KVChange]) -> None:
        """What the engine says of its KV cache, in the numbers of prefix blocks."""
        self._carry_out(self._roster.cache_changed(endpoint_id, changes))

    def close_connections(self) -> None:
        """The idle ones; those in use end with their requests."""
        self._roster.close_connections()

    def _spend(self, flight: Flight, used: Used) -> None:
        """Ends the siblings of a workflow that has used up its budget."""
        workflow_id = flight.terms.request.workflow_id
        if not workflow_id or used is NOTHING:
            return
        cost = cost_pico_usd(used, flight.terms.price)
        for request_id in self.workflows.spent(workflow_id, used.input_tokens + used.output_tokens, cost):
            self._cancel(Cancel(request_id, "workflow_budget"))

    # -- commands

    def _carry_out(self, commands: list[Command]) -> None:
        if commands:
            self._flights.decided(self._scheduler.take_drafts())
            now = self._monotonic()
            for command in commands:
                self._obey(command, now)
            if self._batches:
                self._begin_batches()
        self._arm()

    def _obey(self, command: Command, now: float) -> None:
        # Most are Dispatch; and to ask a Struct's class with isinstance takes as long as to copy a request's head.
        if type(command) is Dispatch:
            self._dispatch(command, now)
        elif isinstance(command, Reject):
            flight = self._flights.take(command.request_id)
            self._flights.close(flight, "refused", now, command.code)
            flight.owner.refused(command)
        elif isinstance(command, Cancel):
            self._cancel(command)
        elif isinstance(command, Suspect):
            self._fail_over(command)
        elif isinstance(command, Migrate):
            # An owner that reported generated tokens knows what to do with it.
            flight, engine = self._send(command.request_id, command.endpoint_id, "migrated", now)
            flight.owner.dispatched(engine)

    def _dispatch(self, command: Dispatch, now: float) -> None:
        version_id, number = command.version_id, command.batch
        if version_id:
            flight = self._flights.by_id[command.request_id]
            if version_id != flight.terms.version_id:
                flight.trail.add("degraded", now, flight.terms.degrade(version_id))
        flight, engine = self._send(command.request_id, command.endpoint_id, "sent", now)
        if number:
            batch = self._batches.setdefault((command.endpoint_id, number), Batch(engine))
            flight.owner.dispatched(engine, batch)
        else:
            flight.owner.dispatched(engine)

    def _send(self, request_id: int, endpoint_id: str, what: str, now: float) -> tuple[Flight, Engine]:
        flight, engine = self._flights.by_id[request_id], self._roster.engines[endpoint_id]
        flight.trail.add(what, now, endpoint_id)
        flight.engine = engine
        return flight, engine

    def _begin_batches(self) -> None:
        batches, self._batches = self._batches, {}
        for batch in batches.values():
            batch.begin()

    def _cancel(self, cancel: Cancel) -> None:
        """Once: its engine may still be heard out, and whoever is told a second time stops listening."""
        flight = self._flights.by_id.get(cancel.request_id)
        if flight is not None and not flight.is_cancelled:
            flight.is_cancelled = True
            flight.trail.add("cancelled", self._monotonic(), cancel.reason)
            flight.owner.cancelled(cancel)

    def _fail_over(self, suspect: Suspect) -> None:
        for request_id in suspect.request_ids:
            flight = self._flights.by_id.get(request_id)
            if flight is not None:
                flight.owner.engine_stalled()
