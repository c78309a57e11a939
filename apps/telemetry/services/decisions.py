"""Decisions on requests, as gateways tell of them; kept for a while, and never more than fit."""

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from apps.telemetry.models import RequestDecision
from workers.contracts.decisions import RequestDecision as Told

log = logging.getLogger(__name__)

KEPT_FOR = timedelta(hours=24)
MAX_KEPT = 1_000_000
MAX_REQUEST_ID = 128


def record_decisions(*, node_id: UUID, decisions: Sequence[Told], now: datetime) -> int:
    """Each once, however often it is told; how many were new is not known. What names no tenant is dropped."""
    rows = list(_rows_of(node_id, decisions, now))
    RequestDecision.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def forget_decisions(*, now: datetime) -> int:
    """Those that are old, and the oldest of those that are too many."""
    forgotten, _ = RequestDecision.objects.filter(stored_at__lt=now - KEPT_FOR).delete()
    beyond = RequestDecision.objects.order_by("-stored_at").values_list("stored_at", flat=True)[MAX_KEPT : MAX_KEPT + 1]
    for stored_at in beyond:
        forgotten += RequestDecision.objects.filter(stored_at__lte=stored_at).delete()[0]
    return forgotten


def _rows_of(node_id: UUID, decisions: Iterable[Told], now: datetime) -> Iterable[RequestDecision]:
    for told in decisions:
        try:
            yield RequestDecision(
                tenant_id=UUID(told.tenant_id),
                request_id=told.request_id[:MAX_REQUEST_ID],
                arrived_at=datetime.fromtimestamp(told.arrived_at, UTC),
                node_id=node_id,
                stored_at=now,
                body=msgspec.to_builtins(told),
            )
        except (ValueError, OverflowError, OSError) as error:
            log.warning("a decision was dropped", extra={"node_id": node_id, "error": str(error)})
