"""What a link writes to Postgres. A database that is away makes them fail softly: the agent's next frame repeats."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from django.db import Error as DatabaseError
from django.db import OperationalError
from django.utils import timezone

from apps.deployments.services.replicas import record_replica_reports
from apps.fleet.services.nodes import record_accelerators, record_disk, record_hello
from apps.routing.consumers.database import in_database_thread
from apps.routing.consumers.session import TelemetryNews
from apps.routing.services.gateways import record_gateway
from apps.telemetry.services.decisions import record_decisions
from apps.telemetry.services.prompts import store_prompts
from apps.usage.services.ingest import Incoming, IngestCounts, ingest_batches
from workers.contracts.decisions import RequestDecision
from workers.contracts.link import Hello, LooseUsageBatch, UsageBatch
from workers.contracts.prompts import SealedPrompt
from workers.contracts.usage import UsageRecord

log = logging.getLogger(__name__)


async def write_hello(node_id: UUID, hello: Hello, now: datetime) -> None:
    await _softly(
        lambda: record_hello(
            node_id=node_id,
            boot_id=hello.boot_id,
            agent_version=hello.agent_version,
            gateway_url=hello.gateway_url,
            inventory=hello.inventory,
            now=now,
        )
    )


async def write_news(node_id: UUID, news: TelemetryNews, now: datetime) -> bool:
    """False when something could not be written."""
    writes = _writes_of(node_id, news, now)
    return not writes or await _softly(lambda: [write() for write in writes])


def _writes_of(node_id: UUID, news: TelemetryNews, now: datetime) -> list[Callable[[], None]]:
    writes: list[Callable[[], None]] = []
    if news.replicas is not None:
        reports = news.replicas
        writes.append(lambda: record_replica_reports(node_id=node_id, reports=reports, now=now))
    if news.gateway is not None:
        gateway = news.gateway
        writes.append(lambda: record_gateway(node_id=node_id, report=gateway, now=now))
    if news.accelerators is not None:
        accelerators = news.accelerators
        writes.append(lambda: record_accelerators(node_id=node_id, reports=accelerators))
    if news.disk is not None:
        disk = news.disk
        writes.append(lambda: record_disk(node_id=node_id, report=disk))
    return writes


async def write_decisions(node_id: UUID, decisions: Sequence[RequestDecision], now: datetime) -> None:
    """Those that cannot be written are lost: they explain, and nothing is counted by them."""
    await _softly(lambda: record_decisions(node_id=node_id, decisions=decisions, now=now))


async def write_prompts(prompts: Sequence[SealedPrompt], now: datetime) -> bool:
    """False when they were not stored: without an acknowledgement the agent sends them again."""
    return await _softly(lambda: store_prompts(prompts=prompts, now=now))


def incoming_of(node_id: UUID, batch: UsageBatch | LooseUsageBatch) -> Incoming:
    records, undecodable = _read(batch) if isinstance(batch, LooseUsageBatch) else (batch.records, [])
    undecodable += [line.encode() for line in batch.damaged]
    return Incoming(node_id=node_id, records=records, undecodable=undecodable)


async def store_usage(incoming: Sequence[Incoming]) -> list[IngestCounts | None]:
    """None for what was not stored. What cannot be stored keeps nothing else back."""
    try:
        return list(await in_database_thread(ingest_batches, incoming, now=timezone.now()))
    except DatabaseError as error:
        log.warning("usage batches were not stored", extra={"batches": len(incoming), "error": str(error)})
        if len(incoming) == 1 or isinstance(error, OperationalError):
            return [None] * len(incoming)
    return [answer for each in incoming for answer in await store_usage([each])]


def _read(batch: LooseUsageBatch) -> tuple[list[UsageRecord], list[bytes]]:
    records: list[UsageRecord] = []
    undecodable: list[bytes] = []
    for raw in batch.records:
        try:
            records.append(msgspec.json.decode(raw, type=UsageRecord))
        except msgspec.DecodeError:
            undecodable.append(bytes(raw))
    return records, undecodable


async def _softly(write: Callable[[], object]) -> bool:
    try:
        await in_database_thread(write)
    except DatabaseError as error:
        log.warning("a link's write failed", extra={"error": str(error)})
        return False
    return True
