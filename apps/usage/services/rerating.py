"""Re-rating: records of a stretch of time priced anew by the book as of now. Shown first, done when confirmed.

Each turn takes one batch in one transaction that also moves the cursor, so a crash costs a batch and counts none twice.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max

from apps.audit.services import record_change
from apps.common.actors import SYSTEM, Actor
from apps.common.errors import ConflictError, InvalidInputError
from apps.common.long_work import patient
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.usage.models import Rerating, ReratingState, UsageRecord
from apps.usage.models.prices import RUNNING
from apps.usage.policies.pricing import Tariffs
from apps.usage.selectors.prices import load_book
from apps.usage.selectors.reratings import FIGURES, sum_figures
from apps.usage.services.partitions import first_kept_day
from apps.usage.services.rating import (
    BATCH_RECORDS,
    Place,
    Rated,
    StoredRecord,
    lock_batch,
    rate_stored,
    read_batch,
    write_ratings,
)

LOOP = "usage.rerate"
NOBODY = "nobody"


@transaction.atomic
def start_rerating(*, actor: Actor, start: datetime, end: datetime, reason: str, now: datetime) -> Rerating:
    """Begins with the preview. Only what is still kept record by record can be priced anew."""
    kept_from = first_kept_day()
    if kept_from is not None and start < kept_from:
        raise InvalidInputError(
            f"records are kept from {kept_from:%Y-%m-%d} on", fields={"start": "is before the oldest kept record"}
        )
    if not start < min(end, now):
        raise InvalidInputError("a re-rating starts in the past and before it ends", fields={"start": "is too late"})
    number = (Rerating.objects.aggregate(newest=Max("number"))["newest"] or 0) + 1
    row = Rerating(number=number, start=start, end=end, reason=reason, created_at=now, created_by=actor.name)
    save_checked(row)
    after = {"start": start.isoformat(), "end": end.isoformat(), "reason": reason}
    record_change(actor=actor, action="rerating.started", subject=row, now=now, after=after)
    enqueue_on_commit(LOOP)
    return row


@transaction.atomic
def apply_rerating(*, actor: Actor, rerating: Rerating, now: datetime) -> Rerating:
    return _decide(actor, rerating, ReratingState.APPLYING, now)


@transaction.atomic
def cancel_rerating(*, actor: Actor, rerating: Rerating, now: datetime) -> Rerating:
    return _decide(actor, rerating, ReratingState.CANCELLED, now)


def _decide(actor: Actor, rerating: Rerating, state: ReratingState, now: datetime) -> Rerating:
    row = Rerating.objects.select_for_update().get(pk=rerating.pk)
    if row.state != ReratingState.PREVIEWED:
        raise ConflictError(f"re-rating {row.number} is {row.state}, not previewed")
    row.state, row.cursor_at, row.cursor_id = state, None, None
    row.save(update_fields=["state", "cursor_at", "cursor_id"])
    record_change(actor=actor, action=f"rerating.{state}", subject=row, now=now, after=_in_all(row.preview))
    enqueue_on_commit(LOOP)
    return row


@patient
def run_reratings(*, now: datetime) -> None:
    """All that is under way, to its end. Where another process is at work on one, that is left to it."""
    for pk in Rerating.objects.filter(state__in=RUNNING).order_by("number").values_list("pk", flat=True):
        while _take_turn(pk, now):
            pass


@transaction.atomic
def _take_turn(pk: Any, now: datetime) -> bool:
    """One batch; whether there is more."""
    row = Rerating.objects.select_for_update(skip_locked=True).filter(pk=pk, state__in=RUNNING).first()
    if row is None:
        return False
    records = _next_records(row)
    tariffs = Tariffs(load_book(as_of=row.created_at))
    rated = [rate_stored(record, tariffs) for record in records]
    if row.state == ReratingState.APPLYING:
        write_ratings(rated, rerating=row.number)
    _note(row, rated, now, is_last=len(records) < BATCH_RECORDS)
    return len(records) == BATCH_RECORDS


def _next_records(row: Rerating) -> list[StoredRecord]:
    records = UsageRecord.objects.filter(arrived_at__gte=row.start, arrived_at__lt=row.end)
    after: Place | None = (row.cursor_at, row.cursor_id) if row.cursor_at and row.cursor_id else None
    if row.state == ReratingState.APPLYING:
        return lock_batch(records, after)
    return read_batch(records, after)


def _note(row: Rerating, rated: list[Rated], now: datetime, *, is_last: bool) -> None:
    _add_figures(row.figures, rated)
    if rated:
        row.cursor_at, row.cursor_id = rated[-1].record.arrived_at, rated[-1].record.record_id
    if is_last and row.state == ReratingState.PREVIEWING:
        row.state = ReratingState.PREVIEWED
    elif is_last:
        row.state, row.applied_at = ReratingState.APPLIED, now
        record_change(actor=SYSTEM, action="rerating.applied", subject=row, now=now, after=_in_all(row.result))
    row.save()


def _add_figures(figures: dict[str, Any], rated: Iterable[Rated]) -> None:
    for each in rated:
        line = figures.setdefault(str(each.record.tenant_id or NOBODY), dict.fromkeys(FIGURES, 0))
        line["records"] += 1
        line["changed"] += each.is_changed
        line["before_pico_usd"] += each.before_pico_usd
        line["after_pico_usd"] += each.rating.cost_pico_usd


def _in_all(figures: dict[str, Any]) -> dict[str, Any]:
    """What auditors read; by tenant it stands in the re-rating itself."""
    sums = sum_figures(figures)
    return sums | {name: str(sums[name]) for name in ("before_usd", "after_usd")}
