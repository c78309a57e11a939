"""The gates to limits: each takes the actor, and what is another tenant's does not exist for it."""

from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.common.actors import Actor
from apps.common.errors import NotFoundError
from apps.limits.models import Block, Limit, LimitEvent, LimitSettings, RaiseRequest
from apps.tenants.models import Tenant
from apps.tenants.selectors import get_tenant, list_tenants


def list_limits(*, actor: Actor, tenant_id: UUID) -> QuerySet[Limit]:
    """Those that hold for the tenant: its own, the defaults, and of tenants above it that the actor may see, too."""
    tenant = get_tenant(actor=actor, tenant_id=tenant_id)
    seen = list_tenants(actor=actor).filter(pk__in=ancestors_of(tenant)).order_by()
    above = Q(tenant__in=seen.values("pk"), scope="tenant")
    return Limit.objects.filter(Q(tenant=tenant) | Q(tenant=None) | above).select_related("tenant")


def list_default_limits() -> QuerySet[Limit]:
    return Limit.objects.filter(tenant=None).select_related("tenant")


def get_limit(*, actor: Actor, limit_id: UUID) -> Limit:
    """A default is there for everybody, as it holds for everybody."""
    limit = Limit.objects.filter(pk=limit_id).select_related("tenant").first()
    if limit is None or (limit.tenant_id and not list_tenants(actor=actor).filter(pk=limit.tenant_id).exists()):
        raise NotFoundError("no such limit")
    return limit


def get_limit_of(*, actor: Actor, tenant_id: UUID, limit_id: UUID) -> Limit:
    """One of those that hold for the tenant."""
    limit = list_limits(actor=actor, tenant_id=tenant_id).filter(pk=limit_id).first()
    if limit is None:
        raise NotFoundError("no such limit")
    return limit


def ancestors_of(tenant: Tenant) -> list[UUID]:
    """Of the parent first."""
    parents = [parent for parent in (tenant.parent, tenant.parent and tenant.parent.parent) if parent]
    return [parent.pk for parent in parents]


def list_blocks(*, actor: Actor, tenant_id: UUID) -> QuerySet[Block]:
    return Block.objects.filter(tenant=get_tenant(actor=actor, tenant_id=tenant_id)).select_related("tenant")


def get_block(*, actor: Actor, block_id: UUID) -> Block:
    block = Block.objects.filter(pk=block_id, tenant__in=list_tenants(actor=actor)).select_related("tenant").first()
    if block is None:
        raise NotFoundError("no such block")
    return block


def get_settings(tenant_id: UUID) -> LimitSettings:
    """The defaults, not stored, of a tenant that has set none."""
    return LimitSettings.objects.filter(pk=tenant_id).first() or LimitSettings(tenant_id=tenant_id)


def list_raise_requests(*, actor: Actor, tenant_id: UUID | None = None) -> QuerySet[RaiseRequest]:
    requests = RaiseRequest.objects.select_related("limit", "tenant", "asked_by", "decided_by")
    if tenant_id is not None:
        return requests.filter(tenant=get_tenant(actor=actor, tenant_id=tenant_id))
    return requests.filter(tenant__in=list_tenants(actor=actor))


def get_raise_request(*, actor: Actor, request_id: UUID) -> RaiseRequest:
    request = list_raise_requests(actor=actor).filter(pk=request_id).first()
    if request is None:
        raise NotFoundError("no such raise request")
    return request


def list_events(*, actor: Actor, tenant_id: UUID, since: datetime | None = None) -> QuerySet[LimitEvent]:
    events = LimitEvent.objects.filter(tenant=get_tenant(actor=actor, tenant_id=tenant_id)).select_related("limit")
    return events if since is None else events.filter(at__gte=since)
