"""The gates to tenant data: each takes the actor, and a tenant that is not the actor's does not exist for it."""

from datetime import datetime
from uuid import UUID

from django.db.models import Count, QuerySet

from apps.common.actors import Actor
from apps.common.credentials import sha256_of
from apps.common.errors import NotFoundError
from apps.tenants import policies
from apps.tenants.models import APIKey, KeyKind, Membership, ServiceToken, Tenant, User


def actor_of(user: User) -> Actor:
    return Actor(
        user_id=user.pk,
        name=user.get_username(),
        is_operator=user.is_operator,
        is_finance=user.is_finance,
        roles=dict(Membership.objects.filter(user=user).values_list("tenant_id", "role")),
    )


def get_user(*, username: str) -> User:
    user = User.objects.filter(username=username).first()
    if user is None:
        raise NotFoundError("no such user")
    return user


def list_tenants(*, actor: Actor) -> QuerySet[Tenant]:
    tenants = Tenant.objects.all()
    return tenants if policies.has_every_tenant(actor) else tenants.filter(pk__in=list(actor.roles))


def get_tenant(*, actor: Actor, tenant_id: UUID) -> Tenant:
    tenant = list_tenants(actor=actor).filter(pk=tenant_id).first()
    if tenant is None:
        raise NotFoundError("no such tenant")
    return tenant


def list_members(*, actor: Actor, tenant_id: UUID) -> QuerySet[Membership]:
    tenant = get_tenant(actor=actor, tenant_id=tenant_id)
    return Membership.objects.filter(tenant=tenant).select_related("user", "tenant")


def get_member(*, actor: Actor, tenant_id: UUID, membership_id: UUID) -> Membership:
    member = list_members(actor=actor, tenant_id=tenant_id).filter(pk=membership_id).first()
    if member is None:
        raise NotFoundError("no such member")
    return member


def list_keys(*, actor: Actor, tenant_id: UUID | None = None) -> QuerySet[APIKey]:
    """Keys that people made, of one tenant or of all the actor's; playground keys come and go unseen."""
    keys = APIKey.objects.filter(kind=KeyKind.NORMAL).select_related("tenant", "owner")
    if not actor.is_operator:
        keys = keys.filter(tenant_id__in=list(actor.roles))
    if tenant_id is None:
        return keys
    return keys.filter(tenant=get_tenant(actor=actor, tenant_id=tenant_id))


def count_usable_keys(*, now: datetime) -> dict[UUID, int]:
    """By tenant; playground keys do not count."""
    keys = APIKey.objects.usable(now).filter(kind=KeyKind.NORMAL)
    return dict(keys.order_by().values_list("tenant_id").annotate(Count("pk")))


def get_key(*, actor: Actor, key_id: UUID) -> APIKey:
    key = list_keys(actor=actor).filter(pk=key_id).first()
    if key is None:
        raise NotFoundError("no such API key")
    return key


def find_token_owner(*, text: str, now: datetime) -> User | None:
    token = ServiceToken.objects.select_related("owner").filter(token_sha256=sha256_of(text)).first()
    if token is None or token.revoked_at is not None or not token.owner.is_active:
        return None
    return None if token.expires_at is not None and token.expires_at <= now else token.owner


def list_service_tokens(*, actor: Actor) -> QuerySet[ServiceToken]:
    return ServiceToken.objects.filter(owner_id=actor.user_id)


def get_service_token(*, actor: Actor, token_id: UUID) -> ServiceToken:
    token = list_service_tokens(actor=actor).filter(pk=token_id).first()
    if token is None:
        raise NotFoundError("no such service token")
    return token


def list_usable_keys(*, now: datetime) -> QuerySet[APIKey]:
    """Of every tenant, for the snapshot."""
    return APIKey.objects.usable(now).order_by("id")


def name_users(ids: set[UUID]) -> dict[UUID, str]:
    return dict(User.objects.filter(pk__in=ids).values_list("pk", "username"))


def name_tenants(ids: set[UUID]) -> dict[UUID, str]:
    return dict(Tenant.objects.filter(pk__in=ids).values_list("pk", "name"))


def name_keys(ids: set[UUID]) -> dict[UUID, str]:
    return {key.pk: str(key) for key in APIKey.objects.filter(pk__in=ids)}
