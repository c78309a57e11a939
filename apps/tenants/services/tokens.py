from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.credentials import SERVICE_TOKEN, issue_credential
from apps.common.errors import ConflictError, InvalidInputError
from apps.common.saving import save_checked
from apps.tenants.matrix import scopes_for
from apps.tenants.models import ServiceToken, User
from apps.tenants.selectors import actor_of


class TooManyTokensError(ConflictError):
    code = "too_many_tokens"


@transaction.atomic
def create_service_token(
    *,
    actor: Actor,
    owner: User,
    name: str,
    now: datetime,
    scopes: Sequence[str] | None = None,
    expires_at: datetime | None = None,
) -> tuple[ServiceToken, str]:
    """`scopes` None stands for everything the owner may do now. A token never may more than its owner.

    One that is made by another ends with it at the latest.
    """
    expires_at = _end_of(actor, expires_at)
    if expires_at is not None and expires_at <= now:
        raise InvalidInputError("the expiry is in the past", fields={"expires_at": "is in the past"})
    _refuse_beyond_most(owner, now)
    credential = issue_credential(SERVICE_TOKEN)
    token = ServiceToken(
        owner=owner,
        name=name,
        prefix=credential.prefix,
        token_sha256=credential.sha256,
        scopes=_checked(actor, owner, scopes),
        created_at=now,
        expires_at=expires_at,
    )
    save_checked(token)
    after = {"owner": str(owner), "scopes": token.scopes}
    tenant_id = _tenant_of(owner)
    record_change(actor=actor, action="service_token.created", subject=token, now=now, tenant_id=tenant_id, after=after)
    return token, credential.text


@transaction.atomic
def revoke_service_token(*, actor: Actor, token: ServiceToken, now: datetime) -> None:
    if token.revoked_at is None:
        token.revoked_at = now
        token.save(update_fields=["revoked_at"])
        tenant_id = _tenant_of(token.owner)
        record_change(actor=actor, action="service_token.revoked", subject=token, now=now, tenant_id=tenant_id)


def _refuse_beyond_most(owner: User, now: datetime) -> None:
    """With the owner locked, so that two who ask at once are not both let in."""
    User.objects.select_for_update().get(pk=owner.pk)
    working = owner.service_tokens.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)
    if working.count() >= settings.TOKENS_MOST_EACH:
        raise TooManyTokensError(
            f"{owner} has {settings.TOKENS_MOST_EACH} tokens that work, the most; revoke one first"
        )


def _tenant_of(owner: User) -> UUID | None:
    """Whose admins may read of it: a program is one tenant's, a person nobody's."""
    if not owner.is_service_account:
        return None
    return owner.memberships.values_list("tenant_id", flat=True).first()


def _end_of(actor: Actor, expires_at: datetime | None) -> datetime | None:
    """Else who finds a token of an hour would have one for good."""
    if actor.until is not None and expires_at is not None and expires_at > actor.until:
        message = f"is after the end of the token that makes it, {actor.until.isoformat()}"
        raise InvalidInputError(f"the expiry {message}", fields={"expires_at": message})
    return expires_at or actor.until


def _checked(actor: Actor, owner: User, scopes: Sequence[str] | None) -> list[str]:
    """A token that makes tokens gives on no more than it has."""
    held = [scope for scope in scopes_for(actor_of(owner)) if actor.scopes is None or scope in actor.scopes]
    if scopes is None:
        return held
    if beyond := sorted(set(scopes) - set(held)):
        message = f"{beyond[0]!r} is none of {', '.join(held)}"
        raise InvalidInputError(f"the scope {message}", fields={"scopes": message})
    return sorted(set(scopes))
