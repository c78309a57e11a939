from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db.models import Min, Q, QuerySet

from apps.common.actors import Actor
from apps.common.errors import NotFoundError
from apps.common.pagination import behind
from apps.tenants.policies import has_every_tenant
from apps.tenants.selectors import get_tenant
from apps.usage.models import UsageRecord
from apps.usage.selectors.sums import UsageScope, within

_NEWEST_FIRST = ("-arrived_at", "-record_id")
_OLDEST_FIRST = ("arrived_at", "record_id")


def list_records(*, scope: UsageScope) -> QuerySet[UsageRecord]:
    """Newest first."""
    return within(
        UsageRecord.objects.order_by(*_NEWEST_FIRST),
        scope,
        at="arrived_at",
        start=scope.start,
        end=scope.end,
    )


def oldest_arrival() -> datetime | None:
    """Of the records that are kept; None while there are none."""
    found: datetime | None = UsageRecord.objects.aggregate(oldest=Min("arrived_at"))["oldest"]
    return found


def get_record(*, actor: Actor, record_id: UUID) -> UsageRecord:
    records = UsageRecord.objects.filter(record_id=record_id)
    if not has_every_tenant(actor):
        records = records.filter(tenant_id__in=list(actor.roles))
    record = records.first()
    if record is None:
        raise NotFoundError("no such usage record")
    return record


def search_records(
    *, scope: UsageScope, outcome: str = "", search: str = "", among: Collection[UUID] | None = None
) -> QuerySet[UsageRecord]:
    """Newest first. `search` is a whole request or record id, end user, workflow or error code.

    `among` are the only ones.
    """
    records = list_records(scope=scope)
    if among is not None:
        records = records.filter(record_id__in=among)
    if outcome:
        records = records.filter(outcome=outcome)
    if not search:
        return records
    named = Q(request_id=search) | Q(end_user=search) | Q(workflow_id=search) | Q(error_code=search)
    return records.filter(named | Q(record_id=UUID(search)) if _is_id(search) else named)


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def page_of_records(
    *,
    scope: UsageScope,
    outcome: str = "",
    search: str = "",
    among: Collection[UUID] | None = None,
    before: UUID | None = None,
    size: int = 50,
) -> tuple[list[UsageRecord], bool]:
    """Newest first, those older than the record `before`, and whether there are more."""
    records = search_records(scope=scope, outcome=outcome, search=search, among=among)
    if last := before and UsageRecord.objects.filter(record_id=before).only("arrived_at").first():
        records = records.filter(behind(_NEWEST_FIRST, (last.arrived_at, before)))
    found = list(records.order_by(*_NEWEST_FIRST)[: size + 1])
    return found[:size], len(found) > size


def count_newer_records(*, scope: UsageScope, than: UUID, limit: int = 100) -> int:
    newest = UsageRecord.objects.filter(record_id=than).only("arrived_at").first()
    if newest is None:
        return 0
    return list_records(scope=scope).filter(behind(_OLDEST_FIRST, (newest.arrived_at, than)))[:limit].count()


def find_record_of_request(*, actor: Actor, tenant_id: UUID, key_id: UUID, request_id: str) -> UsageRecord | None:
    """The record of one request of one key, once it has arrived."""
    tenant = get_tenant(actor=actor, tenant_id=tenant_id)
    records = UsageRecord.objects.filter(tenant_id=tenant.pk, key_id=key_id, request_id=request_id)
    return records.order_by("-arrived_at").first()
