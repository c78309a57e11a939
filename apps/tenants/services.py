from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.credentials import API_KEY, SERVICE_TOKEN, issue_credential
from apps.common.errors import ConflictError, InvalidInputError
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.tenants.models import APIKey, KeyKind, Membership, Role, ServiceToken, Tenant, User
from apps.tenants.policies import MAX_PLAYGROUND_KEYS, PLAYGROUND_KEY_LIFETIME_S

PUBLISH = "routing.publish"


@transaction.atomic
def create_user(
    *,
    actor: Actor,
    username: str,
    password: str,
    now: datetime,
    email: str = "",
    is_operator: bool = False,
    is_finance: bool = False,
) -> User:
    """A name never looks like an address, so that signing in by either stays unambiguous."""
    if "@" in username:
        raise InvalidInputError("a username has no @", fields={"username": "has an @; put addresses under email"})
    user = User(username=username, email=email, is_operator=is_operator, is_finance=is_finance, date_joined=now)
    _set_password(user, password)
    save_checked(user)
    after = {"username": username, "is_operator": is_operator, "is_finance": is_finance}
    record_change(actor=actor, action="user.created", subject=user, now=now, after=after)
    return user


@transaction.atomic
def change_password(*, actor: Actor, user: User, password: str, now: datetime) -> None:
    _set_password(user, password)
    user.save(update_fields=["password"])
    record_change(actor=actor, action="user.password_changed", subject=user, now=now)


def _set_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidInputError("; ".join(error.messages), fields={"password": " ".join(error.messages)}) from error
    user.set_password(password)


@transaction.atomic
def create_tenant(*, actor: Actor, name: str, now: datetime) -> Tenant:
    tenant = Tenant(name=name, created_at=now)
    save_checked(tenant)
    record_change(actor=actor, action="tenant.created", subject=tenant, now=now, tenant_id=tenant.pk)
    return tenant


@transaction.atomic
def add_member(*, actor: Actor, tenant: Tenant, user: User, role: str, now: datetime) -> Membership:
    membership = Membership(tenant=tenant, user=user, role=role, created_at=now)
    save_checked(membership)
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
    before = membership.role
    _keep_an_admin(membership, role)
    membership.role = role
    save_checked(membership)
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
    """The member's keys stop working with the membership."""
    _keep_an_admin(membership, None)
    tenant_id, before = membership.tenant_id, {"role": membership.role}
    for key in APIKey.objects.filter(tenant_id=tenant_id, owner_id=membership.user_id, revoked_at=None):
        revoke_key(actor=actor, key=key, now=now)
    record_change(actor=actor, action="member.removed", subject=membership, now=now, tenant_id=tenant_id, before=before)
    membership.delete()


def _keep_an_admin(membership: Membership, new_role: str | None) -> None:
    if membership.role != Role.TENANT_ADMIN or new_role == Role.TENANT_ADMIN:
        return
    admins = Membership.objects.select_for_update().filter(tenant_id=membership.tenant_id, role=Role.TENANT_ADMIN)
    if not [admin for admin in admins if admin.pk != membership.pk]:
        raise ConflictError("a tenant keeps at least one admin")


@transaction.atomic
def create_key(
    *,
    actor: Actor,
    tenant: Tenant,
    name: str,
    now: datetime,
    owner_id: UUID | None = None,
    allowed_models: list[str] | None = None,
    expires_at: datetime | None = None,
    kind: str = KeyKind.NORMAL,
) -> tuple[APIKey, str]:
    """The key's row and its text, which is nowhere else."""
    if expires_at is not None and expires_at <= now:
        raise InvalidInputError("the expiry is in the past", fields={"expires_at": "is in the past"})
    credential = issue_credential(API_KEY)
    key = APIKey(
        tenant=tenant,
        owner_id=owner_id,
        name=name,
        kind=kind,
        prefix=credential.prefix,
        key_sha256=credential.sha256,
        allowed_models=allowed_models or [],
        created_at=now,
        expires_at=expires_at,
    )
    save_checked(key)
    _record_key(actor=actor, action="key.created", key=key, now=now)
    return key, credential.text


def mint_playground_key(*, actor: Actor, tenant: Tenant, now: datetime) -> tuple[APIKey, str]:
    """A key of the signed-in member that ends by itself; the oldest ones make room."""
    expires_at = now + timedelta(seconds=PLAYGROUND_KEY_LIFETIME_S)
    with transaction.atomic():
        mine = APIKey.objects.usable(now).filter(tenant=tenant, owner_id=actor.user_id, kind=KeyKind.PLAYGROUND)
        for key in mine.order_by("-id")[MAX_PLAYGROUND_KEYS - 1 :]:
            revoke_key(actor=actor, key=key, now=now)
        return create_key(
            actor=actor,
            tenant=tenant,
            name="playground",
            owner_id=actor.user_id,
            expires_at=expires_at,
            kind=KeyKind.PLAYGROUND,
            now=now,
        )


@transaction.atomic
def revoke_key(*, actor: Actor, key: APIKey, now: datetime) -> APIKey:
    if key.revoked_at is not None:
        return key
    key.revoked_at = now
    key.save(update_fields=["revoked_at"])
    _record_key(actor=actor, action="key.revoked", key=key, now=now)
    return key


def _record_key(*, actor: Actor, action: str, key: APIKey, now: datetime) -> None:
    after = {"prefix": key.prefix, "kind": key.kind, "models": key.allowed_models, "owner_id": str(key.owner_id)}
    record_change(actor=actor, action=action, subject=key, now=now, tenant_id=key.tenant_id, after=after)
    enqueue_on_commit(PUBLISH)


@transaction.atomic
def create_service_token(
    *, actor: Actor, owner: User, name: str, now: datetime, expires_at: datetime | None = None
) -> tuple[ServiceToken, str]:
    credential = issue_credential(SERVICE_TOKEN)
    token = ServiceToken(
        owner=owner,
        name=name,
        prefix=credential.prefix,
        token_sha256=credential.sha256,
        created_at=now,
        expires_at=expires_at,
    )
    save_checked(token)
    record_change(actor=actor, action="service_token.created", subject=token, now=now, after={"owner": str(owner)})
    return token, credential.text


@transaction.atomic
def revoke_service_token(*, actor: Actor, token: ServiceToken, now: datetime) -> None:
    if token.revoked_at is None:
        token.revoked_at = now
        token.save(update_fields=["revoked_at"])
        record_change(actor=actor, action="service_token.revoked", subject=token, now=now)


def forget_expired_playground_keys(*, now: datetime) -> int:
    """Rows that expired a day ago; their usage records keep the id."""
    old = APIKey.objects.filter(kind=KeyKind.PLAYGROUND, expires_at__lt=now - timedelta(days=1))
    deleted, _ = old.delete()
    return deleted
