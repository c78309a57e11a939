"""The schedulers of all gateways on one page: queues added up, engines and estimates side by side. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from apps.common.ids import read_uuid
from workers.contracts.telemetry import (
    EndpointEstimate,
    LengthEstimate,
    NodeTelemetry,
    PromptEstimate,
    SchedulerReport,
)


@dataclass
class Queue:
    tenant_id: str
    service_class: str
    queued: int = 0
    running: int = 0


# How far an engine's KV events are followed: (what a cell says, what it means).
CACHE_WORDS = {
    "exact": ("exact", "It publishes what it caches and evicts, and the gateway follows"),
    "connecting": ("approximate", "It has not answered yet; until then the gateway knows what it sent there"),
    "partial": ("approximate", "It had cached something before the gateway listened, and has not cleared that yet"),
    "silent": ("approximate", "Its KV events have stopped; the gateway knows what it sent there"),
    "unreadable": ("approximate", "It publishes KV events that this gateway cannot read"),
    "distrusted": ("approximate", "It runs prompts on other tokens than it says, so its KV events are not used"),
}
NO_EVENTS = (
    "own count",
    "The gateway knows what it sent there: it publishes no KV events, or there is no other engine",
)


@dataclass(frozen=True)
class Engine:
    node_id: str
    estimate: EndpointEstimate

    @property
    def cache(self) -> dict[str, str]:
        word, meaning = CACHE_WORDS.get(self.estimate.cache_state, NO_EVENTS)
        return {"word": word, "meaning": meaning}


@dataclass(frozen=True)
class Beliefs:
    """`classes` are queues by class alone; figures are of the gateways that report."""

    gateways: int
    classes: list[Queue]
    tenants: list[Queue]
    engines: list[Engine]
    lengths: list[LengthEstimate]
    prompts: list[PromptEstimate]

    @property
    def node_ids(self) -> set[UUID]:
        return _uuids(engine.node_id for engine in self.engines)

    @property
    def tenant_ids(self) -> set[UUID]:
        return _uuids([*(queue.tenant_id for queue in self.tenants), *(length.tenant_id for length in self.lengths)])

    @property
    def version_ids(self) -> set[UUID]:
        engines = [engine.estimate.version_id for engine in self.engines]
        learned = [length.version_id for length in self.lengths] + [prompt.version_id for prompt in self.prompts]
        return _uuids([*engines, *learned])


def beliefs_of(telemetry: Iterable[NodeTelemetry]) -> Beliefs:
    told = [(node.node_id, node.gateway.scheduler) for node in telemetry if node.gateway is not None]
    reports = [report for _, report in told]
    return Beliefs(
        gateways=len(told),
        classes=_queues(reports, by_tenant=False),
        tenants=_queues(reports, by_tenant=True),
        engines=[Engine(node_id, estimate) for node_id, report in told for estimate in report.endpoints],
        lengths=[length for report in reports for length in report.lengths],
        prompts=[prompt for report in reports for prompt in report.prompts],
    )


def _queues(reports: Iterable[SchedulerReport], *, by_tenant: bool) -> list[Queue]:
    """The longest first."""
    queues: dict[tuple[str, str], Queue] = {}
    for told in (queue for report in reports for queue in report.tenants):
        key = (told.tenant_id if by_tenant else "", told.service_class)
        queue = queues.setdefault(key, Queue(*key))
        queue.queued += told.queued
        queue.running += told.running
    return sorted(queues.values(), key=lambda queue: (-queue.queued, -queue.running, queue.service_class))


def _uuids(ids: Iterable[str]) -> set[UUID]:
    return {found for each in ids if (found := read_uuid(each))}
