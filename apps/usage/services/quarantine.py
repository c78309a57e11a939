"""Records that cannot be rows: kept whole with the reason, shown to finance, and released when somebody decides so."""

import hashlib
from datetime import datetime
from uuid import UUID

import msgspec
from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import ConflictError
from apps.usage.models import QuarantinedRecord
from apps.usage.policies.checking import problem_of
from apps.usage.selectors.prices import get_tariffs
from apps.usage.services.outcomes import hold_outcomes
from apps.usage.services.storing import store_rows
from workers.contracts.usage import UsageRecord

MAX_CONTENT_BYTES = 1024 * 1024


def put_aside(content: bytes, reason: str, *, node_id: UUID, now: datetime) -> bool:
    """False when the same content is there already."""
    _, is_new = QuarantinedRecord.objects.get_or_create(
        content_sha256=hashlib.sha256(content).hexdigest(),
        defaults={
            "received_at": now, "node_id": node_id, "reason": reason[:500], "content": content[:MAX_CONTENT_BYTES],
        },
    )  # fmt: skip
    return is_new


@transaction.atomic
def release_record(*, actor: Actor, quarantined: QuarantinedRecord, now: datetime) -> None:
    """Stores a record that came too late after all. What is damaged or contradicts another record stays where it is."""
    row = QuarantinedRecord.objects.select_for_update().get(pk=quarantined.pk)
    record = _late_record(row)
    hold_outcomes()
    if row.released_at is not None or store_rows([record], tariffs=get_tariffs(), now=now):
        raise ConflictError("this record is stored already")
    row.released_at = now
    row.save(update_fields=["released_at"])
    record_change(actor=actor, action="quarantined_record.released", subject=row, now=now, after={"reason": row.reason})


def _late_record(row: QuarantinedRecord) -> UsageRecord:
    try:
        record = msgspec.json.decode(bytes(row.content), type=UsageRecord)
    except msgspec.DecodeError as error:
        raise ConflictError("what came is not a usage record and cannot be stored") from error
    if problem_of(record) is not None or record.task_outcome is not None:
        raise ConflictError("only a record that came too late or too early can be stored")
    return record
