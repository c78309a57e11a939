from datetime import datetime

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import ConflictError
from apps.common.rows import see_also
from apps.common.saving import save_checked
from apps.tenants.models import APIKey, Tenant
from apps.tenants.policies import LEVELS


@transaction.atomic
def create_tenant(*, actor: Actor, name: str, now: datetime, parent: Tenant | None = None) -> Tenant:
    """An organisation, or what is below `parent`."""
    level = 0 if parent is None else _level_below(parent, now)
    tenant = Tenant(name=name, parent=parent, level=level, created_at=now)
    see_also(tenant.pk)
    save_checked(tenant)
    after = {"parent": parent.full_name} if parent else {}
    record_change(actor=actor, action="tenant.created", subject=tenant, now=now, tenant_id=tenant.pk, after=after)
    return tenant


@transaction.atomic
def remove_tenant(*, actor: Actor, tenant: Tenant, now: datetime) -> None:
    """Keys and memberships go with it, what it used stays in the records. Only a tenant without working keys goes."""
    locked = Tenant.objects.select_for_update().get(pk=tenant.pk)
    if locked.children.exists():
        raise ConflictError("remove what is below this tenant first")
    if APIKey.objects.usable(now).filter(tenant=locked).exists():
        raise ConflictError("this tenant has keys that work; revoke them first")
    record_change(
        actor=actor,
        action="tenant.removed",
        subject=tenant,
        now=now,
        tenant_id=tenant.pk,
        before={"name": tenant.full_name},
    )
    locked.delete()


def _level_below(parent: Tenant, now: datetime) -> int:
    """The parent's row is locked, as it is when a key is made, so that no parent ends up with keys."""
    locked = Tenant.objects.select_for_update().get(pk=parent.pk)
    if locked.level + 1 >= len(LEVELS):
        raise ConflictError(f"nothing goes below a {LEVELS[-1]}")
    if APIKey.objects.usable(now).filter(tenant=locked).exists():
        raise ConflictError("this tenant has keys of its own, and keys belong to a leaf; revoke them first")
    return locked.level + 1
