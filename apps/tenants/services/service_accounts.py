from datetime import datetime

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.ids import new_id
from apps.common.saving import save_checked
from apps.tenants.models import APIKey, Membership, Tenant, User
from apps.tenants.services.keys import revoke_key
from apps.tenants.services.members import add_member


@transaction.atomic
def create_service_account(*, actor: Actor, tenant: Tenant, name: str, role: str, now: datetime) -> Membership:
    """A member that is a program. Its user name is unique without telling of other tenants' names."""
    user = User(username=f"{name}.{new_id().hex[-8:]}", is_service_account=True, date_joined=now)
    user.set_unusable_password()
    save_checked(user)
    after = {"username": user.username, "role": role}
    record_change(
        actor=actor, action="service_account.created", subject=user, now=now, tenant_id=tenant.pk, after=after
    )
    return add_member(actor=actor, tenant=tenant, user=user, role=role, now=now)


@transaction.atomic
def remove_service_account(*, actor: Actor, member: Membership, now: datetime) -> None:
    """Its tokens go with it, its API keys are revoked."""
    user, tenant_id = member.user, member.tenant_id
    for key in APIKey.objects.filter(owner=user, revoked_at=None):
        revoke_key(actor=actor, key=key, now=now)
    before = {"username": user.username}
    record_change(
        actor=actor, action="service_account.removed", subject=user, now=now, tenant_id=tenant_id, before=before
    )
    user.delete()
