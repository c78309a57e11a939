from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import CASCADE

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import ConflictError
from apps.common.rows import see_also
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.tenants.models import APIKey, KeyKind, Membership, Tenant
from apps.tenants.policies import LEVELS
from apps.tenants.services.keys import revoke_key
from apps.tenants.services.locking import lock_tenant
from apps.tenants.services.people import PUBLISH, note_access_changed
from apps.tenants.services.service_accounts import remove_service_account

# Bills name keys, and a re-rating needs what was agreed.
KEPT = frozenset({"tenants.APIKey", "usage.TenantDiscount"})


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
    """Whatever hangs on it goes, but what bills need: its name, those of its keys, and its discounts.

    Only a tenant with nothing below it and without working keys goes.
    """
    locked = lock_tenant(tenant.pk)
    if reasons := reasons_against_removal(locked, now):
        raise ConflictError("; ".join(reasons))
    for key in APIKey.objects.filter(tenant=locked, revoked_at=None):
        revoke_key(actor=actor, key=key, now=now)
    for member in Membership.objects.filter(tenant=locked).select_related("user"):
        _let_go(actor, member, now)
    for relation in _what_goes():
        relation.related_model.objects.filter(**{relation.field.name: locked}).delete()
    locked.removed_at = now
    locked.save(update_fields=["removed_at"])
    before = {"name": tenant.full_name}
    record_change(actor=actor, action="tenant.removed", subject=tenant, now=now, tenant_id=tenant.pk, before=before)
    enqueue_on_commit(PUBLISH)


def reasons_against_removal(tenant: Tenant, now: datetime) -> list[str]:
    """Keys of the playground end by themselves, and are nobody's to look after."""
    reasons = []
    if tenant.children.present().exists():
        reasons.append("remove what is below this tenant first")
    if APIKey.objects.usable(now).filter(tenant=tenant, kind=KeyKind.NORMAL).exists():
        reasons.append("this tenant has keys that work; revoke them first")
    return reasons


def count_what_goes(tenant: Tenant) -> list[tuple[str, int]]:
    """By its name in the plural, what there is any of."""
    found = []
    for relation in _what_goes():
        count = relation.related_model.objects.filter(**{relation.field.name: tenant}).count()
        found.append((str(relation.related_model._meta.verbose_name_plural), count))  # noqa: SLF001 - likewise
    return sorted((name, count) for name, count in found if count)


def _what_goes() -> list[Any]:
    """Every table that hangs on a tenant; a new one is covered without a line of its own."""
    fields: list[Any] = list(Tenant._meta.get_fields(include_hidden=True))  # noqa: SLF001 - Django's documented API
    hanging = [each for each in fields if each.auto_created and getattr(each, "on_delete", None) is CASCADE]
    return [each for each in hanging if each.related_model._meta.label not in KEPT]  # noqa: SLF001 - likewise


def _let_go(actor: Actor, member: Membership, now: datetime) -> None:
    if member.user.is_service_account:
        remove_service_account(actor=actor, member=member, now=now)
    else:
        note_access_changed(member.user)


def _level_below(parent: Tenant, now: datetime) -> int:
    """The parent's row is locked, as it is when a key is made, so that no parent ends up with keys."""
    locked = lock_tenant(parent.pk)
    if locked.level + 1 >= len(LEVELS):
        raise ConflictError(f"nothing goes below a {LEVELS[-1]}")
    if APIKey.objects.usable(now).filter(tenant=locked).exists():
        raise ConflictError("this tenant has keys of its own, and keys belong to a leaf; revoke them first")
    return locked.level + 1
