"""The gates to tenant data: each takes the actor, and a tenant that is not the actor's does not exist for it."""

from datetime import datetime
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from apps.common.actors import Actor
from apps.common.credentials import PREFIX_CHARACTERS, sha256_of
from apps.common.errors import NotAllowedError, NotFoundError
from apps.common.rows import every_tenant
from apps.tenants import policies
from apps.tenants.models import APIKey, APIKeyQuerySet, Invitation, KeyKind, Membership, ServiceToken, Tenant, User


def actor_of(user: User, scopes: frozenset[str] | None = None, until: datetime | None = None) -> Actor:
    """With the roles as they are now; nothing of it is remembered between requests."""
    with every_tenant():
        own = dict(Membership.objects.filter(user=user).values_list("tenant_id", "role"))
        roles = policies.inherited_roles(own, _branches_under(set(own))) if own else {}
    return Actor(
        user_id=user.pk,
        name=user.get_username(),
        is_platform_admin=user.is_platform_admin,
        is_operator=user.is_operator or user.is_platform_admin,
        is_finance=user.is_finance or user.is_platform_admin,
        roles=roles,
        scopes=scopes,
        until=until,
    )


def _branches_under(tenant_ids: set[UUID]) -> list[policies.Branch]:
    below = Q(parent_id__in=tenant_ids) | Q(parent__parent_id__in=tenant_ids)
    rows = Tenant.objects.filter(below).order_by("level", "id").values_list("id", "parent_id")
    return [policies.Branch(*row) for row in rows]


def get_user(*, username: str) -> User:
    user = User.objects.filter(username=username).first()
    if user is None:
        raise NotFoundError("no such user")
    return user


def list_billed_tenants(*, actor: Actor) -> QuerySet[Tenant]:
    """With those that were removed: what they used is still on a bill."""
    tenants = Tenant.objects.select_related("parent__parent")
    return tenants if policies.has_every_tenant(actor) else tenants.filter(pk__in=list(actor.roles))


def list_tenants(*, actor: Actor) -> QuerySet[Tenant]:
    return list_billed_tenants(actor=actor).filter(removed_at=None)


def get_billed_tenant(*, actor: Actor, tenant_id: UUID) -> Tenant:
    tenant = list_billed_tenants(actor=actor).filter(pk=tenant_id).first()
    if tenant is None:
        raise NotFoundError("no such tenant")
    return tenant


def get_tenant(*, actor: Actor, tenant_id: UUID) -> Tenant:
    tenant = list_tenants(actor=actor).filter(pk=tenant_id).first()
    if tenant is None:
        raise NotFoundError("no such tenant")
    return tenant


def list_tenant_ids_under(*, actor: Actor, tenant_id: UUID) -> tuple[UUID, ...]:
    """The tenant and all below it, removed or not: what its reports add up."""
    tenant = get_billed_tenant(actor=actor, tenant_id=tenant_id)
    return tuple(Tenant.objects.under(tenant.pk).order_by("level", "id").values_list("pk", flat=True))


def audited_tenants(*, actor: Actor, tenant_id: UUID | None) -> list[UUID] | None:
    """Whose changes the actor may read: one tenant and what is below, or all it may; None is everything."""
    if tenant_id is not None:
        asked = list_tenant_ids_under(actor=actor, tenant_id=tenant_id)
        if not policies.may_see_audit(actor, tenant_id):
            raise NotAllowedError("your role does not allow this")
        return list(asked)
    if policies.may_operate(actor):
        return None
    return [tenant_id for tenant_id in actor.roles if policies.may_see_audit(actor, tenant_id)]


def list_children(*, actor: Actor, tenant_id: UUID) -> QuerySet[Tenant]:
    return list_tenants(actor=actor).filter(parent_id=tenant_id)


def list_members(*, actor: Actor, tenant_id: UUID, search: str = "") -> QuerySet[Membership]:
    """`search` is a part of a name or an address."""
    tenant = get_tenant(actor=actor, tenant_id=tenant_id)
    members = Membership.objects.filter(tenant=tenant).select_related("user", "tenant")
    named = Q(user__username__icontains=search) | Q(user__email__icontains=search)
    return members.filter(named) if search else members


def get_member(*, actor: Actor, tenant_id: UUID, membership_id: UUID) -> Membership:
    member = list_members(actor=actor, tenant_id=tenant_id).filter(pk=membership_id).first()
    if member is None:
        raise NotFoundError("no such member")
    return member


def list_keys(*, actor: Actor, tenant_id: UUID | None = None, search: str = "") -> APIKeyQuerySet:
    """Keys that people made, of one tenant or of all the actor's; playground keys come and go unseen.

    `search` is a part of a name, a prefix, or an owner's name.
    """
    keys = APIKey.objects.filter(kind=KeyKind.NORMAL).select_related("tenant", "owner")
    if search:
        prefix = search.removeprefix("ty-")[:PREFIX_CHARACTERS]
        keys = keys.filter(Q(name__icontains=search) | Q(prefix=prefix) | Q(owner__username__icontains=search))
    if not actor.is_operator:
        keys = keys.filter(tenant_id__in=list(actor.roles))
    if tenant_id is None:
        return keys
    return keys.filter(tenant=get_tenant(actor=actor, tenant_id=tenant_id))


def count_usable_keys(*, now: datetime) -> dict[UUID, int]:
    """By tenant; playground keys do not count."""
    keys = APIKey.objects.usable(now).filter(kind=KeyKind.NORMAL)
    return dict(keys.order_by().values_list("tenant_id").annotate(Count("pk")))


def count_working_keys_of(user: User, *, now: datetime) -> int:
    """What stops with the user."""
    return APIKey.objects.usable(now).filter(owner=user, kind=KeyKind.NORMAL).count()


def get_key(*, actor: Actor, key_id: UUID) -> APIKey:
    key = list_keys(actor=actor).filter(pk=key_id).first()
    if key is None:
        raise NotFoundError("no such API key")
    return key


def find_token(*, text: str, now: datetime) -> ServiceToken | None:
    """The token with its owner, if both may still act."""
    token = ServiceToken.objects.select_related("owner").filter(token_sha256=sha256_of(text)).first()
    if token is None or token.revoked_at is not None or not token.owner.is_active:
        return None
    return None if token.expires_at is not None and token.expires_at <= now else token


def list_service_tokens(*, actor: Actor) -> QuerySet[ServiceToken]:
    return ServiceToken.objects.filter(owner_id=actor.user_id)


def get_service_token(*, actor: Actor, token_id: UUID) -> ServiceToken:
    token = list_service_tokens(actor=actor).filter(pk=token_id).first()
    if token is None:
        raise NotFoundError("no such service token")
    return token


def list_tokens_of(*, member: Membership) -> QuerySet[ServiceToken]:
    return ServiceToken.objects.filter(owner_id=member.user_id)


def get_token_of(*, member: Membership, token_id: UUID) -> ServiceToken:
    token = list_tokens_of(member=member).filter(pk=token_id).first()
    if token is None:
        raise NotFoundError("no such service token")
    return token


def get_service_account(*, actor: Actor, tenant_id: UUID, membership_id: UUID) -> Membership:
    member = get_member(actor=actor, tenant_id=tenant_id, membership_id=membership_id)
    if not member.user.is_service_account:
        raise NotFoundError("no such service account")
    return member


def list_invitations(*, actor: Actor, tenant_id: UUID) -> QuerySet[Invitation]:
    tenant = get_tenant(actor=actor, tenant_id=tenant_id)
    return Invitation.objects.filter(tenant=tenant).select_related("invited_by")


def get_invitation(*, actor: Actor, tenant_id: UUID, invitation_id: UUID) -> Invitation:
    invitation = list_invitations(actor=actor, tenant_id=tenant_id).filter(pk=invitation_id).first()
    if invitation is None:
        raise NotFoundError("no such invitation")
    return invitation


def find_invitation(*, text: str, now: datetime) -> Invitation | None:
    """By its token, which is all that its guest has."""
    found = Invitation.objects.select_related("tenant").filter(token_sha256=sha256_of(text)).first()
    return found if found is not None and found.is_open(now) else None


def list_users(*, search: str = "") -> QuerySet[User]:
    """People and service accounts of every tenant."""
    users = User.objects.order_by("-id")
    return users.filter(Q(username__icontains=search) | Q(email__icontains=search)) if search else users


def get_user_by_id(user_id: UUID) -> User:
    user = User.objects.filter(pk=user_id).first()
    if user is None:
        raise NotFoundError("no such user")
    return user


def find_active_user(user_id: str | None) -> User | None:
    return User.objects.filter(pk=user_id, is_active=True, is_service_account=False).first() if user_id else None


def list_usable_keys(*, now: datetime) -> QuerySet[APIKey]:
    """Of every tenant, for the snapshot."""
    return APIKey.objects.usable(now).order_by("id")


def list_key_origins(tenant_id: UUID | None = None) -> dict[UUID, dict[str, str]]:
    """By tenant, of each key that was made by rotating another: the first of that chain. Ids as texts."""
    origins: dict[UUID, dict[str, str]] = {}
    rotated = APIKey.objects.exclude(replaces=None).order_by("created_at", "id")
    if tenant_id is not None:
        rotated = rotated.filter(tenant_id=tenant_id)
    for key, replaced, tenant in rotated.values_list("id", "replaces_id", "tenant_id"):
        of_tenant = origins.setdefault(tenant, {})
        of_tenant[str(key)] = of_tenant.get(str(replaced), str(replaced))
    return origins


def name_users(ids: set[UUID]) -> dict[UUID, str]:
    return dict(User.objects.filter(pk__in=ids).values_list("pk", "username"))


def name_users_for(*, actor: Actor, ids: set[UUID]) -> dict[UUID, str]:
    """Of ids that came with an address: only those whom the actor may know of."""
    users = User.objects.filter(pk__in=ids)
    if not policies.has_every_tenant(actor):
        users = users.filter(memberships__tenant__in=list(actor.roles))
    return dict(users.values_list("pk", "username"))


def name_keys_for(*, actor: Actor, ids: set[UUID]) -> dict[UUID, str]:
    keys = APIKey.objects.filter(pk__in=ids)
    if not policies.has_every_tenant(actor):
        keys = keys.filter(tenant__in=list(actor.roles))
    return {key.pk: str(key) for key in keys}


def name_tenants(ids: set[UUID]) -> dict[UUID, str]:
    return dict(Tenant.objects.filter(pk__in=ids).values_list("pk", "name"))


def name_keys(ids: set[UUID]) -> dict[UUID, str]:
    return {key.pk: str(key) for key in APIKey.objects.filter(pk__in=ids)}
