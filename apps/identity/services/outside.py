"""People whom the identity provider vouches for: who they are here, and what their groups grant."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from apps.common.actors import SYSTEM
from apps.common.errors import ConflictError
from apps.identity.models import OutsideIdentity
from apps.identity.policies import PLATFORM_ROLES, Granted
from apps.tenants.models import Membership, MembershipSource, Tenant, User
from apps.tenants.services import add_member, change_role, create_user, remove_member, set_platform_roles

_NAME_CHARACTERS = 140


def admit_outsider(*, issuer: str, claims: Mapping[str, Any], granted: Granted, now: datetime) -> User:
    """The user of this subject, made when it comes for the first time, with the roles of its groups as they are now.

    A user here is never taken over by who has the same address there. Who comes for the first time in two browsers at
    once is one user: the later one finds what the earlier one made.
    """
    try:
        return _admit(issuer, claims, granted, now)
    except (IntegrityError, ConflictError):
        return _admit(issuer, claims, granted, now)


@transaction.atomic
def _admit(issuer: str, claims: Mapping[str, Any], granted: Granted, now: datetime) -> User:
    identity = OutsideIdentity.objects.select_related("user").filter(issuer=issuer, subject=claims["sub"]).first()
    user = identity.user if identity is not None else _make_user(issuer, claims, now)
    if not user.is_active:
        raise ConflictError("this account is disabled")
    _set_memberships(user, granted, now)
    _set_platform_roles(user, granted, now)
    return user


def _make_user(issuer: str, claims: Mapping[str, Any], now: datetime) -> User:
    email = _address_of(claims)
    if email and User.objects.filter(email__iexact=email).exists():
        raise ConflictError("an account here has this address already; a platform admin can take the address from it")
    user = create_user(actor=SYSTEM, username=_free_name(claims), password=None, email=email, now=now)
    OutsideIdentity.objects.create(user=user, issuer=issuer, subject=claims["sub"])
    return user


def _address_of(claims: Mapping[str, Any]) -> str:
    """None where the provider says that it has not checked it: anybody could have written another's there."""
    is_unchecked = str(claims.get("email_verified", True)).lower() == "false"  # some send it as a text
    return "" if is_unchecked else str(claims.get("email") or "").replace("\x00", "")


def _free_name(claims: Mapping[str, Any]) -> str:
    wanted = str(claims.get("preferred_username") or claims.get("email") or claims["sub"]).partition("@")[0]
    base = re.sub(r"[^\w.+-]", "-", wanted)[:_NAME_CHARACTERS] or "user"
    taken = set(User.objects.filter(username__startswith=base).values_list("username", flat=True))
    names = [base, *(f"{base}-{number}" for number in range(1, len(taken) + 1))]
    return next(name for name in names if name not in taken)


def _set_platform_roles(user: User, granted: Granted, now: datetime) -> None:
    roles = {name: role in granted.platform for role, name in PLATFORM_ROLES.items()}
    if any(getattr(user, name) != is_held for name, is_held in roles.items()):
        set_platform_roles(actor=SYSTEM, user=user, now=now, **roles)


def _set_memberships(user: User, granted: Granted, now: datetime) -> None:
    """Memberships that were given here stay as they are."""
    wanted = {tenant.pk: (tenant, granted.tenants[tenant.full_name]) for tenant in _named(granted)}
    held = {
        member.tenant_id: member for member in Membership.objects.select_related("tenant", "user").filter(user=user)
    }
    for tenant_id, member in held.items():
        if member.source != MembershipSource.OIDC:
            continue
        if tenant_id not in wanted:
            remove_member(actor=SYSTEM, membership=member, now=now)
        elif member.role != wanted[tenant_id][1]:
            change_role(actor=SYSTEM, membership=member, role=wanted[tenant_id][1], now=now)
    for tenant_id in sorted(wanted.keys() - held.keys()):
        tenant, role = wanted[tenant_id]
        add_member(actor=SYSTEM, tenant=tenant, user=user, role=role, source=MembershipSource.OIDC, now=now)


def _named(granted: Granted) -> list[Tenant]:
    last_names = {name.rpartition("/")[2] for name in granted.tenants}
    found = Tenant.objects.present().select_related("parent__parent").filter(name__in=last_names)
    return [tenant for tenant in found if tenant.full_name in granted.tenants]
