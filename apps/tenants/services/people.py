from datetime import datetime

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import ConflictError, InvalidInputError
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.tenants.models import User
from apps.tenants.services.locking import lock_person

PUBLISH = "routing.publish"
PLATFORM_ROLES = ("is_platform_admin", "is_operator", "is_finance")


@transaction.atomic
def create_user(
    *,
    actor: Actor,
    username: str,
    password: str | None,
    now: datetime,
    email: str = "",
    is_platform_admin: bool = False,
    is_operator: bool = False,
    is_finance: bool = False,
) -> User:
    """A name never looks like an address, so that signing in by either stays unambiguous.

    Without a password the user signs in by the identity provider only.
    """
    if "@" in username:
        raise InvalidInputError("a username has no @", fields={"username": "has an @; put addresses under email"})
    roles = {"is_platform_admin": is_platform_admin, "is_operator": is_operator, "is_finance": is_finance}
    user = User(username=username, email=email, date_joined=now, **roles)
    if password is None:
        user.set_unusable_password()
    else:
        _set_password(user, password)
    save_checked(user)
    record_change(actor=actor, action="user.created", subject=user, now=now, after={"username": username, **roles})
    return user


@transaction.atomic
def change_password(*, actor: Actor, user: User, password: str, now: datetime) -> None:
    _set_password(user, password)
    user.save(update_fields=["password"])
    record_change(actor=actor, action="user.password_changed", subject=user, now=now)


@transaction.atomic
def set_platform_roles(*, actor: Actor, user: User, now: datetime, **roles: bool) -> User:
    """`roles` are those of PLATFORM_ROLES; what is left out stays. The last platform admin stays one."""
    lock_person(user)
    before = {name: getattr(user, name) for name in PLATFORM_ROLES}
    if user.is_service_account and any(roles.values()):
        raise ConflictError("a service account is its tenant's, whose admins make its tokens: it gets no platform role")
    if before["is_platform_admin"] and not roles.get("is_platform_admin", True):
        keep_a_platform_admin(user)
    for name, is_held in roles.items():
        setattr(user, name, is_held)
    user.save(update_fields=list(roles))
    note_access_changed(user)
    after = {name: getattr(user, name) for name in PLATFORM_ROLES}
    record_change(actor=actor, action="user.roles_changed", subject=user, now=now, before=before, after=after)
    return user


@transaction.atomic
def change_email(*, actor: Actor, user: User, email: str, now: datetime) -> User:
    """An empty one leaves the account without an address: no letter reaches it, and it signs in by its name."""
    lock_person(user)
    before, user.email = {"email": user.email}, email
    save_checked(user)
    record_change(
        actor=actor, action="user.email_changed", subject=user, now=now, before=before, after={"email": email}
    )
    return user


@transaction.atomic
def change_access(
    *, actor: Actor, user: User, now: datetime, is_active: bool | None = None, email: str | None = None, **roles: bool
) -> User:
    """What is left out stays. Who is disabled is signed out by the next request; tokens and API keys stop with it."""
    lock_person(user)
    if email is not None and email != user.email:
        change_email(actor=actor, user=user, email=email, now=now)
    if is_active is not None and is_active != user.is_active:
        _set_active(actor, user, is_active=is_active, now=now)
    return set_platform_roles(actor=actor, user=user, now=now, **roles) if roles else user


def keep_a_platform_admin(user: User) -> None:
    admins = User.objects.select_for_update().filter(is_platform_admin=True, is_active=True)
    if not [admin for admin in admins if admin.pk != user.pk]:
        raise ConflictError("the platform keeps at least one admin")


def note_access_changed(user: User) -> None:
    """The user's sessions get new ids with their next request."""
    User.objects.filter(pk=user.pk).update(access_version=F("access_version") + 1)


def _set_active(actor: Actor, user: User, *, is_active: bool, now: datetime) -> None:
    if user.is_platform_admin and not is_active:
        keep_a_platform_admin(user)
    user.is_active = is_active
    user.save(update_fields=["is_active"])
    note_access_changed(user)
    action = "user.enabled" if is_active else "user.disabled"
    record_change(actor=actor, action=action, subject=user, now=now)
    enqueue_on_commit(PUBLISH)


def _set_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidInputError("; ".join(error.messages), fields={"password": " ".join(error.messages)}) from error
    user.set_password(password)
