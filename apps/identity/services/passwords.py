from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.credentials import PASSWORD_RESET, issue_credential
from apps.common.errors import NotFoundError
from apps.common.mail import send_on_commit, write_beside
from apps.identity.models import PasswordReset
from apps.identity.policies import letter_buckets, reset_is_for
from apps.identity.selectors import find_reset, find_user_by_name
from apps.identity.services.attempts import take_attempt
from apps.identity.services.sessions import end_sessions_of
from apps.tenants.models import User
from apps.tenants.services import change_password

LIFETIME = timedelta(hours=1)


def ask_for_reset(*, name: str, address: str, now: datetime) -> bool:
    """A letter goes out if there is somebody to write to; who asks is told yes either way."""
    take_attempt(buckets=letter_buckets(account=name, address=address), now=now)
    user = find_user_by_name(name)
    if user is not None and user.is_active and user.email and user.has_usable_password():
        write_beside(lambda: _send_letter(user, now))
    return True


@transaction.atomic
def reset_password(*, token: str, password: str, now: datetime) -> User:
    """Works once, and signs the user out everywhere."""
    found = find_reset(text=token, now=now)
    reset = PasswordReset.objects.select_for_update().filter(pk=found.pk, used_at=None).first() if found else None
    if reset is None:
        raise NotFoundError("this link is used or too old")
    user = reset.user
    actor = Actor(user_id=user.pk, name=user.get_username())
    change_password(actor=actor, user=user, password=password, now=now)
    PasswordReset.objects.filter(user=user, used_at=None).update(used_at=now)
    end_sessions_of(actor=actor, user=user, now=now)
    return user


@transaction.atomic
def _send_letter(user: User, now: datetime) -> None:
    credential = issue_credential(PASSWORD_RESET)
    PasswordReset.objects.create(
        user=user,
        token_sha256=credential.sha256,
        made_for_sha256=reset_is_for(user.password, user.email),
        expires_at=now + LIFETIME,
    )
    actor = Actor(user_id=None, name="somebody")
    record_change(actor=actor, action="user.reset_requested", subject=user, now=now)
    link = f"{settings.WEB_URL}/sign-in/reset/{credential.text}/"
    text = f"Somebody, hopefully you, asked for a new password.\n\nWithin an hour, once:\n{link}\n\nElse do nothing.\n"
    send_on_commit(to=user.email, subject="A new password for Tokenyard", text=text)
