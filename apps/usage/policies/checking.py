"""What makes a record storable. Pure."""

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from uuid import UUID

from workers.contracts.usage import UsageRecord

BIGGEST_BIGINT = 2**63 - 1
BIGGEST_SMALLINT = 2**15 - 1
EARLIEST_S = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
LATEST_S = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
MOST_TOKENS = 10**11  # so that sums fit a bigint, and the cost at the highest price its column
LATE_DAYS = 7  # a record is welcome for so long, whatever is kept
LATE = timedelta(days=LATE_DAYS)
EARLY_DAYS = 7  # a clock may be wrong; days are made ahead for as long
_is_normal = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


def problem_of(record: UsageRecord, *, kept_from_s: float | None = None, until_s: float | None = None) -> str | None:
    """Why the record cannot be a row, or None. Days before `kept_from_s` are dropped, after `until_s` not made."""
    return (
        _id_problem(record)
        or _time_problem(record)
        or _count_problem(record)
        or _token_problem(record)
        or _outcome_problem(record)
        or _day_problem(record.arrived_at, kept_from_s, until_s)
    )


def _day_problem(arrived_at: float, kept_from_s: float | None, until_s: float | None) -> str | None:
    if kept_from_s is not None and arrived_at < kept_from_s:
        return "came after the records of its day were dropped"
    is_early = until_s is not None and arrived_at > until_s
    return f"arrived_at is more than {EARLY_DAYS} days ahead" if is_early else None


def oldest_kept(now: datetime, keep_days: int) -> datetime | None:
    """The first moment of which records are kept; None keeps them for good."""
    if keep_days <= 0:
        return None
    first = now - timedelta(days=max(keep_days, LATE_DAYS + 1))
    return first.replace(hour=0, minute=0, second=0, microsecond=0)


def _id_problem(record: UsageRecord) -> str | None:
    if normal_id(record.record_id) is None:
        return "record_id is not a UUID"
    ids = (record.tenant_id, record.key_id, record.user_id, record.version_id, record.deployment_id)
    malformed = [text for text in (*ids, record.endpoint_id, record.node_id) if text and shared_id(text) is None]
    return f"{len(malformed)} ids are not UUIDs" if malformed else None


def _time_problem(record: UsageRecord) -> str | None:
    if not EARLIEST_S <= record.arrived_at < LATEST_S:
        return "arrived_at is out of range"
    return None if 0 <= record.total_ms < math.inf else "its duration is negative or not finite"


def _count_problem(record: UsageRecord) -> str | None:
    if not 0 <= record.sequence <= BIGGEST_BIGINT:
        return "sequence is out of range"
    if not (0 <= record.status <= BIGGEST_SMALLINT and 0 <= record.attempts <= BIGGEST_SMALLINT):
        return "status or attempts is out of range"
    return None


def _token_problem(record: UsageRecord) -> str | None:
    cached = record.cached_input_tokens
    counts = (record.input_tokens, cached, record.output_tokens, record.reasoning_tokens, record.wasted_tokens)
    if min(counts) < 0 or max(counts) > MOST_TOKENS:
        return "a token count is out of range"
    if cached > record.input_tokens:
        return "more cached input than input"
    return None if 0 <= record.cost_pico_usd <= BIGGEST_BIGINT else "the cost is out of range"


def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def normal_id(text: str) -> str | None:
    """As Postgres writes it, whatever spelling it came in; None of what is no UUID."""
    if _is_normal(text):
        return text
    found = as_uuid(text)
    return None if found is None else str(found)


@lru_cache(maxsize=16_384)
def shared_id(text: str) -> str | None:
    """`normal_id` of what many records name."""
    return normal_id(text)


def _outcome_problem(record: UsageRecord) -> str | None:
    told = record.task_outcome
    if told is None:
        return None
    if bool(told.request_id) == bool(told.workflow_id):
        return "an outcome is of a request or of a workflow"
    if told.value_pico_usd is not None and abs(told.value_pico_usd) > BIGGEST_BIGINT:
        return "the value of the outcome is out of range"
    return None if as_uuid(record.tenant_id) else "an outcome without a tenant"
