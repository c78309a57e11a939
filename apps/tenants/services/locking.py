"""Whoever locks several goes from a tenant to what hangs on it and then to people, so that no two wait in a circle."""

from uuid import UUID

from django.db.models import Q

from apps.common.errors import NotFoundError
from apps.common.saving import lock_row
from apps.tenants.models import Membership, Tenant, User


def lock_tenant(tenant_id: UUID) -> Tenant:
    """Until the transaction ends, what hangs on it neither comes nor goes. One that was removed is not there."""
    tenant = Tenant.objects.present().select_for_update().filter(pk=tenant_id).first()
    if tenant is None:
        raise NotFoundError("no such tenant")
    return tenant


def lock_membership(membership: Membership) -> None:
    """With its tenant and those below it, from above downwards.

    Who changes another one of it waits, and so does who makes a key there.
    """
    under = Tenant.objects.under(membership.tenant_id).select_for_update(of=("self",))
    list(under.order_by("level", "id"))
    lock_row(membership)


def lock_person(user: User) -> None:
    """With all who run the platform, in one order: who takes a role from one counts the others."""
    people = User.objects.select_for_update().filter(Q(pk=user.pk) | Q(is_platform_admin=True))
    list(people.order_by("pk").values_list("pk"))
    lock_row(user)
