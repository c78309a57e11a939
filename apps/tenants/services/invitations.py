from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.credentials import INVITATION, issue_credential
from apps.common.errors import ConflictError, NotFoundError
from apps.common.mail import send_on_commit
from apps.common.saving import save_checked
from apps.tenants.models import Invitation, Membership, Tenant, User
from apps.tenants.selectors import find_invitation
from apps.tenants.services.locking import lock_tenant
from apps.tenants.services.members import add_member
from apps.tenants.services.people import create_user

LIFETIME = timedelta(days=7)


@transaction.atomic
def invite(*, actor: Actor, tenant: Tenant, email: str, role: str, now: datetime) -> tuple[Invitation, str]:
    """The invitation and its link, which is mailed, too. An earlier one of the same address no longer works."""
    lock_tenant(tenant.pk)
    for earlier in Invitation.objects.filter(tenant=tenant, email__iexact=email, accepted_at=None, revoked_at=None):
        revoke_invitation(actor=actor, invitation=earlier, now=now)
    credential = issue_credential(INVITATION)
    invitation = Invitation(
        tenant=tenant,
        email=email,
        role=role,
        token_sha256=credential.sha256,
        invited_by_id=actor.user_id,
        created_at=now,
        expires_at=now + LIFETIME,
    )
    save_checked(invitation)
    after = {"email": email, "role": role}
    record_change(actor=actor, action="member.invited", subject=invitation, now=now, tenant_id=tenant.pk, after=after)
    link = f"{settings.WEB_URL}/invitations/{credential.text}/"
    send_on_commit(to=email, subject=f"{actor.name} invites you to {tenant.name}", text=_letter(actor, tenant, link))
    return invitation, link


@transaction.atomic
def accept_invitation(*, actor: Actor, token: str, user: User, now: datetime) -> Membership:
    """Works once, also for two who click at the same time."""
    invitation = _lock_open(token, now)
    if Membership.objects.filter(tenant=invitation.tenant, user=user).exists():
        raise ConflictError(f"you are a member of {invitation.tenant.name} already")
    invitation.accepted_at = now
    invitation.save(update_fields=["accepted_at"])
    return add_member(actor=actor, tenant=invitation.tenant, user=user, role=invitation.role, now=now)


@transaction.atomic
def join_by_invitation(*, token: str, username: str, password: str, now: datetime) -> Membership:
    """A new user with the address that was invited, which is not repeated where somebody has it already."""
    found = _lock_open(token, now)  # who comes second is told so, and not that the first has the address already
    is_taken = User.objects.filter(email__iexact=found.email).exists()
    actor = Actor(user_id=None, name=username)
    user = create_user(
        actor=actor, username=username, password=password, email="" if is_taken else found.email, now=now
    )
    return accept_invitation(actor=actor, token=token, user=user, now=now)


@transaction.atomic
def revoke_invitation(*, actor: Actor, invitation: Invitation, now: datetime) -> None:
    if invitation.is_open(now) or invitation.revoked_at is None:
        invitation.revoked_at = now
        invitation.save(update_fields=["revoked_at"])
        record_change(
            actor=actor,
            action="member.invitation_withdrawn",
            subject=invitation,
            now=now,
            tenant_id=invitation.tenant_id,
        )


def _lock_open(token: str, now: datetime) -> Invitation:
    found = find_invitation(text=token, now=now)
    if found is not None:
        lock_tenant(found.tenant_id)
    invitation = Invitation.objects.select_for_update().filter(pk=found.pk).first() if found else None
    if invitation is None or not invitation.is_open(now):
        raise NotFoundError("this invitation is used, withdrawn or too old")
    return invitation


def _letter(actor: Actor, tenant: Tenant, link: str) -> str:
    return (
        f"{actor.name} invites you to {tenant.name} on Tokenyard.\n\n"
        f"Accept within {LIFETIME.days} days, once:\n{link}\n\n"
        "If you do not know what this is about, do nothing.\n"
    )
