"""What makes a record storable, what it should have cost, and which sums may come from the rollup. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

from workers.contracts.snapshot import Price
from workers.contracts.usage import UsageRecord

BIGGEST_BIGINT = 2**63 - 1
BIGGEST_SMALLINT = 2**15 - 1
EARLIEST_S = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
LATEST_S = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
SUM_LIMIT = 10**15  # so that a year of the largest records still fits a bigint


def problem_of(record: UsageRecord) -> str | None:
    """Why the record cannot be a row, or None."""
    checks = (_id_problem, _time_problem, _count_problem, _token_problem)
    return next((problem for check in checks if (problem := check(record))), None)


def _id_problem(record: UsageRecord) -> str | None:
    if as_uuid(record.record_id) is None:
        return "record_id is not a UUID"
    ids = (record.tenant_id, record.key_id, record.user_id, record.version_id, record.deployment_id)
    malformed = [text for text in (*ids, record.endpoint_id, record.node_id) if text and as_uuid(text) is None]
    return f"{len(malformed)} ids are not UUIDs" if malformed else None


def _time_problem(record: UsageRecord) -> str | None:
    if not EARLIEST_S <= record.arrived_at < LATEST_S:
        return "arrived_at is out of range"
    durations = (record.queue_ms, record.ttft_ms, record.total_ms, record.engine_ms)
    if any(ms is not None and not (math.isfinite(ms) and ms >= 0) for ms in durations):
        return "a duration is negative or not finite"
    return None


def _count_problem(record: UsageRecord) -> str | None:
    if not 0 <= record.sequence <= BIGGEST_BIGINT:
        return "sequence is out of range"
    if not (0 <= record.status <= BIGGEST_SMALLINT and 0 <= record.attempts <= BIGGEST_SMALLINT):
        return "status or attempts is out of range"
    return None


def _token_problem(record: UsageRecord) -> str | None:
    counts = (record.input_tokens, record.cached_input_tokens, record.output_tokens, record.reasoning_tokens)
    if not all(0 <= count <= SUM_LIMIT for count in (*counts, record.wasted_tokens)):
        return "a token count is out of range"
    if record.cached_input_tokens > record.input_tokens:
        return "more cached input than input"
    return None if 0 <= record.cost_pico_usd <= BIGGEST_BIGINT else "the cost is out of range"


def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def cost_pico_usd(record: UsageRecord, price: Price) -> int:
    fresh_tokens = record.input_tokens - record.cached_input_tokens
    return (
        fresh_tokens * price.input_pico_usd
        + record.cached_input_tokens * price.cached_input_pico_usd
        + record.output_tokens * price.output_pico_usd
    )


def usd_from_pico(pico_usd: int) -> Decimal:
    return Decimal(pico_usd).scaleb(-12)


@dataclass(frozen=True)
class DatedPrice:
    effective_from: datetime
    price: Price


def price_at(prices: Sequence[DatedPrice], at: datetime) -> Price:
    """`prices` are newest first; before the first of them nothing was charged."""
    return next((dated.price for dated in prices if dated.effective_from <= at), Price())


def fits_hours(start: datetime, end: datetime, zone: ZoneInfo | None) -> bool:
    """True when the range, and each day of the zone within it, begins on a full UTC hour: then hours add up to it."""
    edges = [start, end]
    if zone is not None:
        days = (end - start).days + 2
        edges += [_midnight(start.astimezone(zone) + timedelta(days=day)) for day in range(days)]
    return all(edge.astimezone(UTC).time().replace(hour=0) == datetime.min.time() for edge in edges)


def _midnight(local: datetime) -> datetime:
    return local.replace(hour=0, minute=0, second=0, microsecond=0)
