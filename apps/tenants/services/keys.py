from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.credentials import API_KEY, issue_credential
from apps.common.errors import ConflictError, InvalidInputError, NotAllowedError
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.tenants.models import APIKey, KeyKind, Tenant
from apps.tenants.policies import (
    MAX_OVERLAP_S,
    MAX_PLAYGROUND_KEYS,
    PLAYGROUND_KEY_LIFETIME_S,
    has_every_tenant,
    may_create_key,
    normal_networks,
    normal_paths,
)
from apps.tenants.selectors import actor_of, get_user_by_id
from apps.tenants.services.locking import lock_tenant
from apps.tenants.services.people import PUBLISH
from workers.contracts.paths import CLIENT_PATHS


class TooManyKeysError(ConflictError):
    code = "too_many_keys"


@transaction.atomic
def create_key(
    *,
    actor: Actor,
    tenant: Tenant,
    name: str,
    now: datetime,
    owner_id: UUID | None = None,
    allowed_models: Sequence[str] | None = None,
    allowed_paths: Sequence[str] = (),
    allowed_networks: Sequence[str] = (),
    expires_at: datetime | None = None,
    kind: str = KeyKind.NORMAL,
    replaces: APIKey | None = None,
) -> tuple[APIKey, str]:
    """The key's row and its text, which is nowhere else."""
    if expires_at is not None and expires_at <= now:
        raise InvalidInputError("the expiry is in the past", fields={"expires_at": "is in the past"})
    locked = lock_tenant(tenant.pk)
    _refuse_former_member(actor, tenant)
    if locked.children.present().exists():
        raise ConflictError("keys belong to a leaf: make the key for a tenant below this one")
    if kind == KeyKind.NORMAL:  # those of a playground make room by themselves
        _refuse_beyond_most(locked, owner_id, is_rotation=replaces is not None, now=now)
    credential = issue_credential(API_KEY)
    key = APIKey(
        tenant=tenant,
        owner_id=owner_id,
        name=name,
        kind=kind,
        prefix=credential.prefix,
        key_sha256=credential.sha256,
        allowed_models=sorted(set(allowed_models or [])),
        allowed_paths=normal_paths(allowed_paths, known=CLIENT_PATHS),
        allowed_networks=normal_networks(allowed_networks),
        created_at=now,
        expires_at=expires_at,
        replaces=replaces,
    )
    save_checked(key)
    _record_key(actor=actor, action="key.created", key=key, now=now)
    return key, credential.text


def mint_playground_key(*, actor: Actor, tenant: Tenant, now: datetime) -> tuple[APIKey, str]:
    """A key of the signed-in member that ends by itself; the oldest ones make room."""
    expires_at = now + timedelta(seconds=PLAYGROUND_KEY_LIFETIME_S)
    with transaction.atomic():
        lock_tenant(tenant.pk)
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
def rotate_key(*, actor: Actor, key: APIKey, overlap_s: int, now: datetime) -> tuple[APIKey, str]:
    """A new key with the same scope and owner; the old one works for `overlap_s` more seconds, at most till its end."""
    lock_tenant(key.tenant_id)
    old = APIKey.objects.select_for_update().get(pk=key.pk)
    if not old.is_usable(now):
        raise ConflictError("this key no longer works, so there is nothing to rotate")
    if not 0 <= overlap_s <= MAX_OVERLAP_S:
        message = f"must be from 0 to {MAX_OVERLAP_S} seconds"
        raise InvalidInputError(f"the overlap {message}", fields={"overlap_s": message})
    if old.successors.filter(revoked_at=None).exists():
        raise ConflictError("this key has a successor already; rotate that one")
    made = create_key(
        actor=actor,
        tenant=old.tenant,
        name=old.name,
        owner_id=old.owner_id,
        allowed_models=old.allowed_models,
        allowed_paths=old.allowed_paths,
        allowed_networks=old.allowed_networks,
        expires_at=_renewed_expiry(old, now),
        replaces=old,
        now=now,
    )
    _retire(actor, old, overlap_s, now)
    return made


@transaction.atomic
def revoke_key(*, actor: Actor, key: APIKey, now: datetime) -> APIKey:
    if key.revoked_at is not None:
        return key
    key.revoked_at = now
    key.save(update_fields=["revoked_at"])
    _record_key(actor=actor, action="key.revoked", key=key, now=now)
    return key


def forget_expired_playground_keys(*, now: datetime) -> int:
    """Rows that expired a day ago; their usage records keep the id."""
    old = APIKey.objects.filter(kind=KeyKind.PLAYGROUND, expires_at__lt=now - timedelta(days=1))
    deleted, _ = old.delete()
    return deleted


def _refuse_beyond_most(tenant: Tenant, owner_id: UUID | None, *, is_rotation: bool, now: datetime) -> None:
    """With the tenant locked. Keys in their overlap are let be, or a full tenant could not rotate; as many, though."""
    keys = APIKey.objects.usable(now).filter(tenant=tenant, kind=KeyKind.NORMAL)
    counted, times = (keys, 2) if is_rotation else (keys.filter(successors=None), 1)
    if counted.count() >= times * settings.KEYS_MOST:
        raise TooManyKeysError(f"{tenant.name} has {settings.KEYS_MOST} keys that work, the most; revoke one first")
    if owner_id is not None and counted.filter(owner_id=owner_id).count() >= times * settings.KEYS_MOST_EACH:
        most = settings.KEYS_MOST_EACH
        raise TooManyKeysError(
            f"whoever owns it has {most} keys of {tenant.name} that work, the most; revoke one first"
        )


def _refuse_former_member(actor: Actor, tenant: Tenant) -> None:
    """With the tenant locked: a key that is made beside its maker's removal would be revoked by nobody."""
    if actor.user_id is None or has_every_tenant(actor):
        return
    maker = get_user_by_id(actor.user_id)
    if not may_create_key(actor_of(maker, actor.scopes), tenant.pk):
        raise NotAllowedError("your role does not allow this")


def _renewed_expiry(old: APIKey, now: datetime) -> datetime | None:
    """As long a life as the old key was given."""
    return None if old.expires_at is None else now + (old.expires_at - old.created_at)


def _retire(actor: Actor, old: APIKey, overlap_s: int, now: datetime) -> None:
    if overlap_s == 0:
        revoke_key(actor=actor, key=old, now=now)
        return
    ends_at = now + timedelta(seconds=overlap_s)
    old.expires_at = min(old.expires_at, ends_at) if old.expires_at else ends_at
    old.save(update_fields=["expires_at"])
    _record_key(actor=actor, action="key.rotated", key=old, now=now)


def _record_key(*, actor: Actor, action: str, key: APIKey, now: datetime) -> None:
    after = {
        "prefix": key.prefix,
        "kind": key.kind,
        "models": key.allowed_models,
        "paths": key.allowed_paths,
        "networks": key.allowed_networks,
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
        "owner_id": str(key.owner_id),
    }
    record_change(actor=actor, action=action, subject=key, now=now, tenant_id=key.tenant_id, after=after)
    enqueue_on_commit(PUBLISH)
