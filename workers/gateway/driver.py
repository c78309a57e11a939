"""Carries out the scheduler's commands, and tells it what happens and what is known of requests and engines."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from workers.contracts.endpoints import Endpoint
from workers.contracts.settlement import NOTHING, Used, cost_pico_usd
from workers.engines.interface import EngineReading
from workers.gateway.engines import Engine
from workers.gateway.estimates import Estimates
from workers.gateway.flows import Flows
from workers.gateway.pace import Work
from workers.gateway.trails import Trail, Trails
from workers.gateway.turns import Turn
from workers.gateway.upstream import EnginePool
from workers.gateway.workflows import Workflows
from workers.scheduling.interface import Cancel, Command, Dispatch, EngineReport, Migrate, Reject, Suspect
from workers.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from workers.gateway.terms import Terms

# Two events closer than this are one for the timer.
TIMER_GRAIN_S = 0.001


class Scheduled(Protocol):
    """A request in the scheduler's hands. `last_progress_at` is when something came of it last."""

    last_progress_at: float

    @property
    def is_client_stalled(self) -> bool: ...
    def dispatched(self, engine: Engine) -> None: ...
    def refused(self, reject: Reject) -> None: ...
    def cancelled(self, cancel: Cancel) -> None: ...
    def engine_stalled(self) -> None: ...


class Timer(Protocol):
    def cancel(self) -> None: ...


class Flight(Struct, eq=False):
    """A request from its arrival to its end; `engine` and `work` are of the attempt that runs."""

    owner: Scheduled
    terms: "Terms"
    trail: Trail
    engine: Engine | None = None
    work: Work | None = None


class Driver:
    """The live driver of a `Scheduler`: engines by endpoint id, requests by the ids that it gives them.

    `call_later` runs a function after so many seconds; without it somebody else has to `tick`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        monotonic: Callable[[], float],
        turn: Turn,
        call_later: Callable[[float, Callable[[], None]], Timer] | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._monotonic = monotonic
        self._turn = turn
        self._call_later = call_later
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._engines: dict[str, Engine] = {}
        self._scheduled: dict[int, Flight] = {}
        self._next_id = 0
        self._offered_to: Counter[str] = Counter()
        self._paced: dict[str, bool] = {}
        self._flows = Flows()
        self.estimates = Estimates()
        self.workflows = Workflows()
        self.trails = Trails()

    @property
    def scheduler(self) -> Scheduler:
        return self._scheduler

    @property
    def engines(self) -> list[Engine]:
        return list(self._engines.values())

    @property
    def endpoints(self) -> list[Endpoint]:
        return [engine.endpoint for engine in self._engines.values()]

    def serves(self, version_id: str) -> bool:
        """Whether any engine is offered for it."""
        return version_id in self._offered_to

    def has_choice(self, version_id: str) -> bool:
        """Whether there is more than one engine to choose from."""
        return self._offered_to[version_id] > 1

    def is_paced(self, version_id: str) -> bool:
        """Whether the speed of its engines is known, so that a limit can be judged by it."""
        return self._paced.get(version_id, False)

    def heard_at(self) -> dict[str, float]:
        """When something last came from each engine that has requests, by endpoint id. Who waits for us is well."""
        now = self._monotonic()
        heard: dict[str, float] = {}
        for flight in self._scheduled.values():
            if flight.engine is not None:
                endpoint_id = flight.engine.endpoint.endpoint_id
                at = now if flight.owner.is_client_stalled else flight.owner.last_progress_at
                heard[endpoint_id] = max(at, heard.get(endpoint_id, 0.0))
        return heard

    # -- requests

    def submit(self, owner: Scheduled, terms: "Terms", label: str) -> int:
        """Returns the id for the calls below; `owner` may be called back before this returns."""
        self._next_id += 1
        now = self._monotonic()
        request = terms.request
        request.request_id = self._next_id
        share = self._flows.enter(terms.tenant, terms.fairness_id)
        request.tenant_id, request.tenant_weight = share.account, share.weight
        request.max_queued_of_tenant = share.max_queued
        trail = Trail(label, terms.tenant.tenant_id, terms.tenant.service_class, request, [("arrived", now, "")])
        flight = self._scheduled[request.request_id] = Flight(owner, terms, trail)
        self.trails.open(trail)
        if request.workflow_id:
            self.workflows.began(request)
        self._carry_out(self._scheduler.request_arrived(request, now))
        if flight.engine is None and not trail.is_over:
            trail.add("queued", now)
        return request.request_id

    def first_token(self, request_id: int, at: float | None = None) -> None:
        """`at` is given where the engine tells it afterwards."""
        at = self._monotonic() if at is None else at
        flight = self._scheduled[request_id]
        flight.trail.add("first_token", at)
        if flight.engine is not None and flight.work is not None:
            flight.engine.pace.first_token(flight.work, at)
        self._carry_out(self._scheduler.first_token(request_id, at))

    def progress(self, request_id: int, output_tokens: int) -> None:
        """Of a long answer, now and then."""
        self._carry_out(self._scheduler.progress(request_id, output_tokens, self._monotonic()))

    def finished(self, request_id: int, used: Used = NOTHING) -> None:
        """The answer came to its end."""
        now = self._monotonic()
        flight = self._scheduled.pop(request_id)
        if used.source == "engine":
            self._learn(flight, used, now)
        self._close(flight, "completed", now)
        self._carry_out(self._scheduler.request_finished(request_id, now, used.output_tokens))
        self._spend(flight, used)

    def withdrawn(self, request_id: int, used: Used = NOTHING) -> None:
        now = self._monotonic()
        flight = self._scheduled.pop(request_id)
        self._close(flight, "withdrawn", now)
        self._carry_out(self._scheduler.request_withdrawn(request_id, now))
        self._spend(flight, used)

    def failed(self, request_id: int, *, may_retry: bool, used: Used = NOTHING, generated_tokens: int = 0) -> None:
        """`generated_tokens` have gone out and can be continued from."""
        now = self._monotonic()
        flight = self._scheduled[request_id]
        if may_retry:
            flight.trail.add("failed", now, flight.engine.endpoint.endpoint_id if flight.engine else "")
            self._land(flight)
        else:
            del self._scheduled[request_id]
            self._close(flight, "failed", now)
        self._carry_out(
            self._scheduler.request_failed(request_id, now, may_retry=may_retry, generated_tokens=generated_tokens)
        )
        self._spend(flight, used)

    # -- time

    def tick(self) -> None:
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

    def reported(self, engine: Engine, reading: EngineReading, taken_at: float) -> None:
        """`taken_at` is on the driver's clock. Of an engine that does not tell its cache own counts stand."""
        endpoint_id = engine.endpoint.endpoint_id
        if self._engines.get(endpoint_id) is not engine:
            return
        engine.reading, engine.read_at = reading, taken_at
        if reading.kv_capacity_tokens and reading.kv_capacity_tokens != engine.kv_capacity_tokens:
            engine.kv_capacity_tokens = reading.kv_capacity_tokens
            self._tell(engine)
        if reading.kv_used_ratio is None:
            return
        report = EngineReport(
            taken_at=taken_at,
            running=reading.running_requests or 0,
            waiting=reading.waiting_requests or 0,
            kv_usage=reading.kv_used_ratio,
            steps_total=reading.steps_total,
            tokens_total=reading.generated_tokens_total,
        )
        self._carry_out(self._scheduler.endpoint_reported(endpoint_id, report, self._monotonic()))

    def stalled(self, engine: Engine) -> None:
        """It makes no progress: nothing more goes there, and what is there runs elsewhere where it can."""
        if self._engines.get(engine.endpoint.endpoint_id) is not engine:
            return
        engine.is_stalled = True
        self._carry_out(self._scheduler.drain_started(engine.endpoint.endpoint_id, self._monotonic()))
        for flight in [flight for flight in self._scheduled.values() if flight.engine is engine]:
            flight.owner.engine_stalled()

    def resumed(self, engine: Engine) -> None:
        if self._engines.get(engine.endpoint.endpoint_id) is engine:
            engine.is_stalled = False
            self._tell(engine)

    def set_endpoints(self, endpoints: list[Endpoint]) -> None:
        """Makes these the engines that may be sent to. What runs on one that is left out runs on."""
        offered = {endpoint.endpoint_id: endpoint for endpoint in endpoints}
        for endpoint_id in [known for known in self._engines if known not in offered]:
            self._lose(endpoint_id)
        self._offered_to = Counter(e.version_id for e in offered.values() if not e.is_draining)
        for endpoint in offered.values():
            self._update(endpoint)
        self._note_pace()

    def close_connections(self) -> None:
        """The idle ones; those in use end with their requests."""
        for engine in self._engines.values():
            engine.pool.close()

    def _update(self, endpoint: Endpoint) -> None:
        known = self._engines.get(endpoint.endpoint_id)
        if known is not None and known.endpoint == endpoint:
            return
        if known is not None and _is_elsewhere(known.endpoint, endpoint):
            self._lose(endpoint.endpoint_id)
            known = None
        if known is None:
            known = Engine(endpoint, EnginePool(endpoint.base_url, self._turn))
            self._engines[endpoint.endpoint_id] = known
        known.endpoint = endpoint
        self._tell(known)

    def _tell(self, engine: Engine) -> None:
        endpoint = engine.endpoint
        commands = self._scheduler.endpoint_updated(
            endpoint.endpoint_id,
            endpoint.version_id,
            endpoint.max_running_requests,
            self._monotonic(),
            is_draining=engine.is_draining,
            spec=engine.spec(),
        )
        self._carry_out(commands)

    def _note_pace(self) -> None:
        self._paced = {}
        for engine in self._engines.values():
            version_id = engine.endpoint.version_id
            self._paced[version_id] = self._paced.get(version_id, True) and engine.is_paced

    def _lose(self, endpoint_id: str) -> None:
        self._engines.pop(endpoint_id).pool.close()
        self._scheduler.endpoint_lost(endpoint_id, self._monotonic())

    # -- what was learned

    def _learn(self, flight: Flight, used: Used, now: float) -> None:
        terms, engine, work = flight.terms, flight.engine, flight.work
        version_id = terms.request.version_id
        if terms.text_bytes and used.input_tokens:
            self.estimates.learn_prompt(version_id, terms.text_bytes, used.input_tokens)
        self.estimates.learn_length(terms.tenant.tenant_id, version_id, used.output_tokens // terms.choices)
        if engine is None or work is None:
            return
        uncached = used.input_tokens - used.cached_input_tokens
        engine.pace.learn(work, now, uncached_tokens=uncached, output_tokens=used.output_tokens // terms.choices)
        if engine.profile is None and engine.pace.take_change():
            self._note_pace()
            if self._engines.get(engine.endpoint.endpoint_id) is engine:
                self._tell(engine)

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
            self._note_decisions()
            now = self._monotonic()
            for command in commands:
                self._obey(command, now)
        self._arm()

    def _obey(self, command: Command, now: float) -> None:
        if isinstance(command, Reject):
            flight = self._scheduled.pop(command.request_id)
            self._close(flight, "refused", now, command.code)
            flight.owner.refused(command)
        elif isinstance(command, Cancel):
            self._cancel(command)
        elif isinstance(command, Suspect):
            self._fail_over(command)
        else:
            self._send(command, now)

    def _send(self, command: Dispatch | Migrate, now: float) -> None:
        # An owner that reported generated tokens knows what to do with a Migrate.
        flight = self._scheduled[command.request_id]
        engine = self._engines[command.endpoint_id]
        what = "migrated" if isinstance(command, Migrate) else "sent"
        flight.trail.add(what, now, command.endpoint_id)
        flight.engine = engine
        flight.work = engine.pace.sent(flight.terms.request.prompt_tokens, now)
        flight.owner.dispatched(engine)

    def _cancel(self, cancel: Cancel) -> None:
        flight = self._scheduled.get(cancel.request_id)
        if flight is not None:
            flight.trail.add("cancelled", self._monotonic(), cancel.reason)
            flight.owner.cancelled(cancel)

    def _fail_over(self, suspect: Suspect) -> None:
        for request_id in suspect.request_ids:
            flight = self._scheduled.get(request_id)
            if flight is not None:
                flight.owner.engine_stalled()

    def _note_decisions(self) -> None:
        for decision in self._scheduler.take_decisions():
            flight = self._scheduled.get(decision.request_id)
            if flight is not None:
                flight.trail.decide(decision)

    def _close(self, flight: Flight, how: str, now: float, detail: str = "") -> None:
        request = flight.terms.request
        flight.trail.add(how, now, detail)
        self._land(flight)
        self.trails.close(flight.trail)
        self._flows.leave(flight.terms.tenant.tenant_id, request.tenant_id)
        if request.workflow_id:
            self.workflows.ended(request)

    def _land(self, flight: Flight) -> None:
        """The attempt is over."""
        if flight.engine is not None and flight.work is not None:
            flight.engine.pace.ended(flight.work)
        flight.engine = flight.work = None


def _is_elsewhere(known: Endpoint, offered: Endpoint) -> bool:
    return (known.base_url, known.version_id) != (offered.base_url, offered.version_id)
