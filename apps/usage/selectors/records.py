from uuid import UUID

from django.db.models import QuerySet

from apps.common.actors import Actor
from apps.common.errors import NotFoundError
from apps.tenants.policies import has_every_tenant
from apps.usage.models import UsageRecord
from apps.usage.selectors.reports import UsageScope


def list_records(*, scope: UsageScope) -> QuerySet[UsageRecord]:
    """Newest first."""
    records = UsageRecord.objects.filter(arrived_at__gte=scope.start, arrived_at__lt=scope.end)
    if scope.tenant_ids is not None:
        records = records.filter(tenant_id__in=scope.tenant_ids)
    if scope.user_id is not None:
        records = records.filter(user_id=scope.user_id)
    if scope.key_id is not None:
        records = records.filter(key_id=scope.key_id)
    return records.filter(public_model=scope.public_model) if scope.public_model else records


def get_record(*, actor: Actor, record_id: UUID) -> UsageRecord:
    records = UsageRecord.objects.filter(record_id=record_id)
    if not has_every_tenant(actor):
        records = records.filter(tenant_id__in=list(actor.roles))
    record = records.first()
    if record is None:
        raise NotFoundError("no such usage record")
    return record
