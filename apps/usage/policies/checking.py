"""What makes a record storable. Pure."""

import math
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from uuid import UUID

from workers.contracts.usage import UsageRecord

BIGGEST_BIGINT = 2**63 - 1
BIGGEST_SMALLINT = 2**15 - 1
EARLIEST_S = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
LATEST_S = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
SUM_LIMIT = 10**15  # so that a year of the largest records still fits a bigint
LATE_DAYS = 7  # a record is welcome for so long, whatever is kept
EARLY_DAYS = 7  # a clock may be wrong; days are made ahead for as long


def problem_of(record: UsageRecord, *, kept_from: datetime | None = None, until: datetime | None = None) -> str | None:
    """Why the record cannot be a row, or None. Days before `kept_from` are dropped, those after `until` not made."""
    checks = (_id_problem, _time_problem, _count_problem, _token_problem, _outcome_problem)
    problem = next((problem for check in checks if (problem := check(record))), None)
    if problem is not None:
        return problem
    if kept_from is not None and record.arrived_at < kept_from.timestamp():
        return "came after the records of its day were dropped"
    is_early = until is not None and record.arrived_at > until.timestamp()
    return f"arrived_at is more than {EARLY_DAYS} days ahead" if is_early else None


def oldest_kept(now: datetime, keep_days: int) -> datetime | None:
    """The first moment of which records are kept; None keeps them for good."""
    if keep_days <= 0:
        return None
    first = now - timedelta(days=max(keep_days, LATE_DAYS + 1))
    return first.replace(hour=0, minute=0, second=0, microsecond=0)


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


@lru_cache(maxsize=8192)
def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _outcome_problem(record: UsageRecord) -> str | None:
    told = record.task_outcome
    if told is None:
        return None
    if bool(told.request_id) == bool(told.workflow_id):
        return "an outcome is of a request or of a workflow"
    if told.value_pico_usd is not None and abs(told.value_pico_usd) > BIGGEST_BIGINT:
        return "the value of the outcome is out of range"
    return None if as_uuid(record.tenant_id) else "an outcome without a tenant"
