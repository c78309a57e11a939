"""Limits as gateways get them, in the snapshot."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from msgspec import structs

from apps.limits.models import Block, Limit, LimitSettings
from apps.limits.selectors.limits import ancestors_of
from apps.tenants.models import Tenant
from apps.tenants.selectors import list_key_origins
from workers.contracts import limits as contract

_Rows = dict[UUID | None, list[Limit]]


def compile_limits(*, now: datetime) -> list[contract.TenantLimits]:
    """Of every tenant that has any; in one order, whatever order they were written in."""
    rows: _Rows = defaultdict(list)
    for limit in Limit.objects.order_by("id"):
        rows[limit.tenant_id].append(limit)
    blocks = defaultdict(list)
    for block in Block.objects.order_by("id"):
        if block.until is None or block.until > now:
            blocks[block.tenant_id].append(block)
    settings = {row.tenant_id: row for row in LimitSettings.objects.all()}
    tenants = Tenant.objects.present().select_related("parent__parent").order_by("id")
    compiled = [_compile(tenant, rows, blocks[tenant.pk], settings.get(tenant.pk)) for tenant in tenants]
    origins = list_key_origins()
    return [
        structs.replace(one, key_origins=origins.get(UUID(one.tenant_id), {}))
        for one in compiled
        if one.rules or one.blocks
    ]


def _compile(tenant: Tenant, rows: _Rows, blocks: list[Block], settings: LimitSettings | None) -> contract.TenantLimits:
    """What is its own comes after the defaults, whose place it takes where it names the same."""
    settings = settings or LimitSettings(tenant=tenant)
    above = [limit for parent in ancestors_of(tenant) for limit in rows.get(parent, []) if limit.scope == "tenant"]
    return contract.TenantLimits(
        tenant_id=str(tenant.pk),
        time_zone=settings.time_zone,
        degraded="refuse" if settings.degraded == "refuse" else "share",
        rules=[
            *map(rule_of, rows.get(None, [])),
            *(rule_of(limit, holder=str(limit.tenant_id)) for limit in above),
            *map(rule_of, rows.get(tenant.pk, [])),
        ],
        blocks=[_block_of(block) for block in blocks],
    )


def rule_of(limit: Limit, holder: str = "") -> contract.LimitRule:
    """`holder` is the tenant whose account it is, if not the one that asks."""
    return contract.LimitRule(
        limit_id=str(limit.pk),
        scope=limit.scope,  # type: ignore[arg-type]  # the database holds no other
        kind=limit.kind,  # type: ignore[arg-type]
        amount=limit.amount,
        subject=limit.subject,
        model=limit.public_model,
        burst=limit.burst,
        soft_percent=limit.soft_percent,
        raised_amount=limit.raised_amount,
        raised_until=limit.raised_until.timestamp() if limit.raised_until else None,
        revision=limit.revision,
        reset_count=limit.reset_count,
        setter="operator" if limit.setter == "operator" else "tenant",
        is_counted_by_control_plane=True,
        tenant_id=holder,
    )


def _block_of(block: Block) -> contract.Block:
    return contract.Block(
        scope=block.scope,  # type: ignore[arg-type]  # the database holds no other
        subject=block.subject,
        reason=block.reason,
        until=block.until.timestamp() if block.until else None,
    )


def zones_of(tenants: Iterable[UUID]) -> dict[UUID, str]:
    return dict(LimitSettings.objects.filter(pk__in=list(tenants)).values_list("tenant_id", "time_zone"))
