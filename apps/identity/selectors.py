from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.common.actors import Actor
from apps.common.credentials import sha256_of
from apps.common.errors import NotFoundError
from apps.common.sessions import SIGN_IN_ID
from apps.identity.models import PasswordReset, RecoveryCode, SecondFactor, SignInSession
from apps.identity.policies import reset_is_for
from apps.tenants.models import User


def find_user_by_name(name: str) -> User | None:
    """By user name or address; service accounts never sign in."""
    if not name or "\x00" in name:
        return None
    named = User.objects.filter(Q(username=name) | Q(email__iexact=name), is_service_account=False)
    return named.order_by("username").first()


def find_second_factor(user: User) -> SecondFactor | None:
    """Only one whose first code has proved that the device works."""
    return SecondFactor.objects.filter(user=user, confirmed_at__isnull=False).first()


def count_recovery_codes(user: User) -> int:
    return RecoveryCode.objects.filter(user=user, used_at=None).count()


def list_sessions(*, actor: Actor) -> QuerySet[SignInSession]:
    """One's own; nobody sees another's."""
    open_ones = SignInSession.objects.filter(ended_at=None)
    return open_ones.filter(user_id=actor.user_id) if actor.user_id else open_ones.none()


def list_sessions_of(user: User) -> QuerySet[SignInSession]:
    """For platform admins."""
    return SignInSession.objects.filter(user=user, ended_at=None)


def get_session(*, actor: Actor, session_id: UUID) -> SignInSession:
    session = list_sessions(actor=actor).filter(pk=session_id).first()
    if session is None:
        raise NotFoundError("no such session")
    return session


def find_reset(*, text: str, now: datetime) -> PasswordReset | None:
    found = PasswordReset.objects.select_related("user").filter(token_sha256=sha256_of(text)).first()
    if found is None or found.used_at is not None or found.expires_at <= now or not found.user.is_active:
        return None
    return found if found.made_for_sha256 == reset_is_for(found.user.password, found.user.email) else None


def find_person_of(session: Mapping[str, Any], user_id: UUID) -> User | None:
    """Who listens on a socket, as long as the session it was opened with lasts."""
    row = find_session(session, user_id)
    return row.user if row is not None and row.user.is_active else None


def find_session(session: Mapping[str, Any], user_id: UUID) -> SignInSession | None:
    """Our record of a session of Django's, unless it is ended."""
    open_ones = SignInSession.objects.select_related("user").filter(user_id=user_id, ended_at=None)
    session_id = session.get(SIGN_IN_ID)
    return open_ones.filter(pk=session_id).first() if session_id else None
