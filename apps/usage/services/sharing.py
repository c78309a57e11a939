"""Sharing out the engine time of each quarter of an hour once it is over, and anew when late records come."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Sum

from apps.common.long_work import patient
from apps.usage.models import EngineShare, SharedSlot, UsageRecord, UsageTotal
from apps.usage.policies.checking import LATE_DAYS
from apps.usage.policies.sharing import Run, clipped, share_time
from apps.usage.policies.slots import SLOT, slot_of

GRACE = timedelta(minutes=1)
LONGEST_RUN = timedelta(hours=1)  # what a request does after that is not counted
MAX_SLOTS_A_TURN = 200
_MICROSECOND = timedelta(microseconds=1)

Owner = tuple[UUID | None, UUID | None, str]


@patient
def share_engine_time(*, now: datetime) -> int:
    """How many slots were shared out."""
    due = _slots_due(now)[:MAX_SLOTS_A_TURN]
    for slot, record_count in due:
        _share_slot(slot, record_count)
    return len(due)


def _slots_due(now: datetime) -> list[tuple[datetime, int]]:
    """Those among whose records, and those before it that may still have run, the number has changed."""
    first, last = slot_of(now) - timedelta(days=LATE_DAYS + 1), slot_of(now - GRACE)
    counted = UsageTotal.objects.filter(slot__gte=first - LONGEST_RUN, slot__lt=last).values_list("slot")
    counts = dict(counted.annotate(Sum("request_count")).order_by())
    shared = dict(SharedSlot.objects.filter(slot__gte=first).values_list("slot", "record_count"))
    back = range(int(LONGEST_RUN / SLOT) + 1)
    slots = sorted({slot + step * SLOT for slot in counts for step in back})
    sums = {slot: sum(counts.get(slot - step * SLOT, 0) for step in back) for slot in slots if first <= slot < last}
    return [(slot, count) for slot, count in sums.items() if shared.get(slot) != count]


@transaction.atomic
def _share_slot(slot: datetime, record_count: int) -> None:
    EngineShare.objects.filter(slot=slot).delete()
    shares = [
        EngineShare(slot=slot, node_id=node_id, tenant_id=tenant, version_id=version, public_model=model, busy_us=busy)
        for node_id, owners in _shares_in(slot).items()
        for (tenant, version, model), busy in owners.items()
    ]
    EngineShare.objects.bulk_create(shares, batch_size=1000)
    SharedSlot.objects.update_or_create(slot=slot, defaults={"record_count": record_count})


def _shares_in(slot: datetime) -> dict[UUID, dict[Owner, int]]:
    """By node: the shares on its engines, added up."""
    start, end = _in_us(slot), _in_us(slot + SLOT)
    by_node: dict[UUID, dict[Owner, int]] = defaultdict(lambda: defaultdict(int))
    for (node_id, _), runs in _runs_on_engines(slot).items():
        for owner, busy_us in share_time(clipped(runs, start, end)).items():
            by_node[node_id][owner] += busy_us
    return by_node


def _runs_on_engines(slot: datetime) -> dict[tuple[UUID, UUID | None], list[Run[Owner]]]:
    rows = UsageRecord.objects.filter(
        arrived_at__gte=slot - LONGEST_RUN, arrived_at__lt=slot + SLOT, engine_ms__gt=0, node_id__isnull=False
    ).values_list(
        "node_id", "replica_id", "tenant_id", "version_id", "public_model", "arrived_at", "queue_ms", "engine_ms"
    )
    runs: dict[tuple[UUID, UUID | None], list[Run[Owner]]] = defaultdict(list)
    for node_id, replica_id, tenant_id, version_id, model, arrived_at, queue_ms, engine_ms in rows.iterator(5000):
        if node_id is not None and engine_ms is not None:
            start, end = _run_of(arrived_at, queue_ms, engine_ms)
            runs[node_id, replica_id].append((start, end, (tenant_id, version_id, model)))
    return runs


def _run_of(arrived_at: datetime, queue_ms: float | None, engine_ms: float) -> tuple[int, int]:
    start = _in_us(arrived_at) + round((queue_ms or 0) * 1000)
    return start, start + round(engine_ms * 1000)


def _in_us(moment: datetime) -> int:
    return (moment - datetime(2020, 1, 1, tzinfo=UTC)) // _MICROSECOND
