"""What accelerators cost us, and how long they were there: counted up to now, whenever this runs."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.saving import save_checked
from apps.fleet.models import Accelerator
from apps.usage.models import AcceleratorClock, AcceleratorPrice
from apps.usage.policies.accelerators import PriceLine, counted_until, line_for, paid_until
from apps.usage.policies.slots import cut_by_slots, slot_of
from apps.usage.selectors.accelerators import list_price_lines

MAX_CATCH_UP = timedelta(days=7)
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('usage.meter_accelerators'))"
_ADD = """
INSERT INTO accelerator_slot (slot, accelerator_id, node_id, name, available_us) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (accelerator_id, slot) DO UPDATE SET available_us = accelerator_slot.available_us + excluded.available_us
"""
_MICROSECOND = timedelta(microseconds=1)


@transaction.atomic
def set_accelerator_price(
    *,
    actor: Actor,
    accelerator_name: str,
    ownership: str,
    hour_pico_usd: int,
    effective_from: datetime,
    now: datetime,
    node_id: UUID | None = None,
    source: str = "",
) -> AcceleratorPrice:
    """A new line; `source` says where the figure is from. Hours from then on cost that, counted ones included."""
    line = AcceleratorPrice(
        accelerator_name=accelerator_name,
        node_id=node_id,
        ownership=ownership,
        hour_pico_usd=hour_pico_usd,
        effective_from=effective_from,
        created_at=now,
        source=source,
    )
    save_checked(line)
    after = {"ownership": ownership, "hour_pico_usd": hour_pico_usd, "effective_from": effective_from.isoformat()}
    record_change(actor=actor, action="accelerator_price.set", subject=line, now=now, after=after)
    return line


@transaction.atomic
def meter_accelerators(*, now: datetime) -> None:
    """Adds the time since the last turn. An accelerator is counted from the first turn that sees it."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK)
    lines = list_price_lines()
    clocks = {clock.accelerator_id: clock.counted_until for clock in AcceleratorClock.objects.all()}
    added: list[tuple[Any, ...]] = []
    marks = []
    for accelerator in Accelerator.objects.select_related("node").defer("node__inventory", "node__labels"):
        rows, mark = _metered(accelerator, lines, clocks.get(accelerator.pk, now), now)
        added += rows
        marks.append(mark)
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, added)
    AcceleratorClock.objects.bulk_create(
        marks, update_conflicts=True, unique_fields=["accelerator_id"], update_fields=["counted_until"]
    )


def _metered(
    accelerator: Accelerator, lines: list[PriceLine], before: datetime, now: datetime
) -> tuple[list[tuple[Any, ...]], AcceleratorClock]:
    """What is added for it, and up to where it has been counted then."""
    line = line_for(lines, name=accelerator.name, node_id=accelerator.node_id, at=now)
    until = paid_until(line, last_seen_at=accelerator.node.last_seen_at, now=now)
    times = _times(max(before, now - MAX_CATCH_UP), until)
    named = (accelerator.pk, accelerator.node_id, accelerator.name)
    rows: list[tuple[Any, ...]] = [(slot, *named, spent) for slot, spent in times.items()]
    mark = counted_until(until, before=before, now=now)
    return rows, AcceleratorClock(accelerator_id=accelerator.pk, counted_until=mark)


def _times(start: datetime, until: datetime | None) -> dict[datetime, int]:
    times: dict[datetime, int] = defaultdict(int)
    for begin, end in cut_by_slots(start, until) if until is not None else ():
        times[slot_of(begin)] += (end - begin) // _MICROSECOND
    return times
