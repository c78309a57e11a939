from datetime import datetime

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import ConflictError
from apps.common.saving import save_checked
from apps.tenants.models import APIKey, Membership, MembershipSource, Role, Tenant, User
from apps.tenants.services.keys import revoke_key
from apps.tenants.services.locking import lock_membership, lock_tenant
from apps.tenants.services.people import create_user, note_access_changed


@transaction.atomic
def add_member(
    *,
    actor: Actor,
    tenant: Tenant,
    user: User,
    role: str,
    now: datetime,
    source: str = MembershipSource.LOCAL,
) -> Membership:
    lock_tenant(tenant.pk)
    if user.is_service_account and user.memberships.exists():
        raise ConflictError("a service account belongs to one tenant, whose admins make its tokens")
    membership = Membership(tenant=tenant, user=user, role=role, source=source, created_at=now)
    save_checked(membership)
    note_access_changed(user)
    record_change(
        actor=actor, action="member.added", subject=membership, now=now, tenant_id=tenant.pk, after={"role": role}
    )
    return membership


@transaction.atomic
def invite_member(
    *, actor: Actor, tenant: Tenant, username: str, role: str, password: str, now: datetime, email: str = ""
) -> Membership:
    """Creates the user together with the membership."""
    user = create_user(actor=actor, username=username, password=password, email=email, now=now)
    return add_member(actor=actor, tenant=tenant, user=user, role=role, now=now)


@transaction.atomic
def change_role(*, actor: Actor, membership: Membership, role: str, now: datetime) -> Membership:
    lock_membership(membership)
    before = membership.role
    _keep_an_admin(membership, role)
    membership.role = role
    save_checked(membership)
    note_access_changed(membership.user)
    record_change(
        actor=actor,
        action="member.role_changed",
        subject=membership,
        now=now,
        tenant_id=membership.tenant_id,
        before={"role": before},
        after={"role": role},
    )
    return membership


@transaction.atomic
def remove_member(*, actor: Actor, membership: Membership, now: datetime) -> None:
    """The member's keys, here and below, stop working with the membership."""
    lock_membership(membership)
    _keep_an_admin(membership, None)
    tenant_id, before = membership.tenant_id, {"role": membership.role}
    below = Tenant.objects.under(tenant_id)
    for key in APIKey.objects.filter(tenant__in=below, owner_id=membership.user_id, revoked_at=None):
        revoke_key(actor=actor, key=key, now=now)
    record_change(actor=actor, action="member.removed", subject=membership, now=now, tenant_id=tenant_id, before=before)
    note_access_changed(membership.user)
    membership.delete()


def _keep_an_admin(membership: Membership, new_role: str | None) -> None:
    """A tenant that hangs below another has the admins from above."""
    if membership.role != Role.TENANT_ADMIN or new_role == Role.TENANT_ADMIN or membership.tenant.parent_id:
        return
    admins = Membership.objects.select_for_update().filter(
        tenant_id=membership.tenant_id, role=Role.TENANT_ADMIN, user__is_active=True, user__is_service_account=False
    )
    if not [admin for admin in admins if admin.pk != membership.pk]:
        raise ConflictError("a tenant keeps at least one admin")
