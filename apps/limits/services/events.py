"""What gateways tell of limits: fetched from Valkey, kept for a while."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from redis.exceptions import RedisError

from apps.common.valkey import blocking_client
from apps.limits.models import Limit, LimitEvent
from apps.limits.policies import is_uuid
from apps.tenants.models import Tenant
from workers.contracts.limits import EVENTS_KEY
from workers.contracts.limits import LimitEvent as Told

log = logging.getLogger(__name__)

BATCH = 200
KEPT = timedelta(days=30)
_decode = msgspec.json.Decoder(Told).decode


def fetch_events(*, now: datetime) -> int:
    """How many were stored. Those of limits or tenants that are gone are let go."""
    try:
        client: Any = blocking_client()
        told = client.rpop(EVENTS_KEY, BATCH) or []
    except (RedisError, OSError) as error:
        log.warning("events of limits were not fetched", extra={"error": str(error)})
        return 0
    events = [event for event in map(_decode_or_none, told) if event is not None]
    limits = set(Limit.objects.filter(pk__in={event.limit_id for event in events}).values_list("pk", flat=True))
    tenants = set(Tenant.objects.filter(pk__in={_tenant_of(event) for event in events}).values_list("pk", flat=True))
    rows = [_row(event) for event in events if UUID(event.limit_id) in limits and UUID(_tenant_of(event)) in tenants]
    LimitEvent.objects.bulk_create(rows)
    LimitEvent.objects.filter(at__lt=now - KEPT).delete()
    return len(rows)


def _decode_or_none(told: bytes) -> Told | None:
    try:
        event = _decode(told)
    except msgspec.DecodeError:
        return None
    return event if is_uuid(event.limit_id) and is_uuid(_tenant_of(event)) else None


def _tenant_of(event: Told) -> str:
    return event.subject.partition("/")[0]


def _row(event: Told) -> LimitEvent:
    return LimitEvent(
        at=datetime.fromtimestamp(event.at, UTC),
        what=event.what,
        limit_id=UUID(event.limit_id),
        tenant_id=UUID(_tenant_of(event)),
        subject=event.subject.partition("/")[2].replace("\x00", "")[:256],
        used=event.used,
        amount=event.limit,
    )
