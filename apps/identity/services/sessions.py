from datetime import datetime, timedelta

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.identity.models import SignInSession
from apps.tenants.models import User

_SEEN_EACH = timedelta(seconds=60)
_FORGET_AFTER = timedelta(days=30)
_BROWSER_CHARACTERS = 200


@transaction.atomic
def start_session(*, user: User, address: str, browser: str, now: datetime) -> SignInSession:
    session = SignInSession.objects.create(
        user=user,
        started_at=now,
        seen_at=now,
        address=address[:45],
        browser=browser.replace("\x00", "")[:_BROWSER_CHARACTERS],
    )
    actor = Actor(user_id=user.pk, name=user.get_username())
    record_change(actor=actor, action="user.signed_in", subject=user, now=now, after={"address": session.address})
    return session


def note_seen(*, session: SignInSession, now: datetime) -> None:
    if now - session.seen_at > _SEEN_EACH:
        SignInSession.objects.filter(pk=session.pk).update(seen_at=now)


@transaction.atomic
def end_session(*, actor: Actor, session: SignInSession, now: datetime) -> None:
    SignInSession.objects.filter(pk=session.pk, ended_at=None).update(ended_at=now)
    record_change(actor=actor, action="user.session_ended", subject=session.user, now=now)


@transaction.atomic
def end_sessions_of(*, actor: Actor, user: User, now: datetime, but: SignInSession | None = None) -> int:
    open_ones = SignInSession.objects.filter(user=user, ended_at=None)
    ended = open_ones if but is None else open_ones.exclude(pk=but.pk)
    count = ended.update(ended_at=now)
    if count:
        record_change(actor=actor, action="user.sessions_ended", subject=user, now=now, after={"count": count})
    return count


def forget_old_sessions(*, now: datetime) -> int:
    deleted, _ = SignInSession.objects.filter(seen_at__lt=now - _FORGET_AFTER).delete()
    return deleted
