"""The requests that are in the scheduler's hands, each with who asks and what is remembered of its course."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from workers.contracts.snapshot import TenantPolicy
from workers.gateway.attempts.engines import Engine
from workers.gateway.driving.batching import Batch
from workers.gateway.driving.flows import Flows
from workers.gateway.driving.trails import Trail, Trails
from workers.gateway.driving.workflows import Workflows
from workers.scheduling.decision import Draft
from workers.scheduling.interface import Cancel, Reject

if TYPE_CHECKING:
    from workers.gateway.driving.terms import Terms


class Scheduled(Protocol):
    """A request in the scheduler's hands. What is dispatched with a `batch` joins that and does not begin by itself.

    `stranded`: it waits, and no engine is offered for its version any more.
    """

    def dispatched(self, engine: Engine, batch: Batch | None = None) -> None: ...
    def refused(self, reject: Reject) -> None: ...
    def cancelled(self, cancel: Cancel) -> None: ...
    def engine_stalled(self) -> None: ...
    def stranded(self) -> None: ...


class Flight:
    """A request from its arrival to its end; `engine` is that of the attempt that runs."""

    __slots__ = ("engine", "is_cancelled", "owner", "terms", "trail")

    def __init__(self, owner: Scheduled, terms: "Terms", trail: Trail) -> None:
        self.owner = owner
        self.terms = terms
        self.trail = trail
        self.engine: Engine | None = None
        self.is_cancelled = False


class Flights:
    """By the driver's id. Each is opened, taken and closed once.

    `queued_elsewhere` is what tenants have queued at other processes of the gateway, as of a second ago.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Flight] = {}
        self.trails = Trails()
        self.workflows = Workflows()
        self._flows = Flows()
        self.queued_elsewhere: dict[str, int] = {}

    def open(self, owner: Scheduled, terms: "Terms", label: str, now: float) -> Flight:
        """The request has its id; here it gets its share."""
        request, tenant = terms.request, terms.tenant
        tenant_id = request.tenant_id
        if terms.fairness_id or self._flows.divides(tenant_id):
            share = self._flows.enter(tenant, terms.fairness_id)
            request.tenant_id, request.tenant_weight = share.account, share.weight
            request.max_queued_of_tenant = share.max_queued
        if self.queued_elsewhere:
            bound = request.max_queued_of_tenant - self.queued_elsewhere.get(tenant_id, 0)
            request.max_queued_of_tenant = max(bound, 0)
        trail = Trail(label, tenant_id, tenant.service_class, request, now)
        flight = self.by_id[request.request_id] = Flight(owner, terms, trail)
        self.trails.open(trail)
        if request.workflow_id:
            self.workflows.began(request)
        return flight

    def weights(self, tenant: TenantPolicy) -> dict[str, float]:
        return self._flows.weights(tenant)

    def take(self, request_id: int) -> Flight:
        return self.by_id.pop(request_id)

    def close(self, flight: Flight, how: str, now: float, detail: str = "") -> None:
        request = flight.terms.request
        # How it failed once it was cancelled says nothing.
        if how != "failed" or not flight.trail.was_cancelled:
            flight.trail.add(how, now, detail)
        flight.engine = None
        self.trails.close(flight.trail)
        self._flows.leave(flight.trail.tenant_id, request.tenant_id)
        if request.workflow_id:
            self.workflows.ended(request)

    def decided(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            flight = self.by_id.get(draft.request_id)
            if flight is not None:
                flight.trail.decide(draft)

    def list_waiting(self) -> list[Flight]:
        return [flight for flight in self.by_id.values() if flight.engine is None]

    def count_running(self) -> Counter[str]:
        """By endpoint id."""
        return Counter(f.engine.endpoint.endpoint_id for f in self.by_id.values() if f.engine is not None)

    def count_by_tenant(self) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
        """What waits and what runs, by tenant and class."""
        queued: Counter[tuple[str, str]] = Counter()
        running: Counter[tuple[str, str]] = Counter()
        for flight in self.by_id.values():
            counts = queued if flight.engine is None else running
            counts[flight.trail.tenant_id, flight.trail.service_class] += 1
        return queued, running
