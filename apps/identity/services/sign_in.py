from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from apps.audit.selectors import has_entry
from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import DomainError
from apps.common.rows import every_tenant
from apps.identity.policies import Bucket, code_buckets, password_buckets
from apps.identity.selectors import find_user_by_name
from apps.identity.services.attempts import TooManyAttemptsError, give_back_attempt, take_attempt
from apps.identity.services.second_factor import use_code
from apps.tenants.models import User

_BLOCKED = "user.sign_in_blocked"


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Where somebody comes from. `devices` maps users who signed in with this browser before onto its id."""

    address: str
    devices: dict[UUID, str]

    def device_of(self, user: User | None) -> str:
        return self.devices.get(user.pk, "") if user is not None else ""


class NotRecognisedError(DomainError):
    code = "not_recognised"
    status = 403


def check_password(*, name: str, password: str, visitor: Visitor, now: datetime) -> User:
    """Raises NotRecognisedError or TooManyAttemptsError, alike for people there are and people there are not."""
    user = find_user_by_name(name)
    buckets = password_buckets(account=name, address=visitor.address, device=visitor.device_of(user))
    _take(user, buckets, now)
    if user is None:
        User().set_password(password)  # as long as for a user there is
    if user is None or not user.check_password(password) or not user.is_active:
        raise NotRecognisedError("that name and password do not belong together")
    give_back_attempt(buckets=buckets)
    return user


def check_code(*, user: User, code: str, visitor: Visitor, now: datetime) -> User:
    """A code of the device or a recovery code. Raises as `check_password` does."""
    buckets = code_buckets(account=str(user.pk), address=visitor.address, device=visitor.device_of(user))
    _take(user, buckets, now)
    if not use_code(user=user, code=code, now=now):
        raise NotRecognisedError("that code is wrong, too old or used already")
    give_back_attempt(buckets=buckets)
    return user


def _take(user: User | None, buckets: list[Bucket], now: datetime) -> None:
    try:
        take_attempt(buckets=buckets, now=now)
    except TooManyAttemptsError as error:
        if user is not None:
            _note_refusal(user, error.since, now)
        raise


@transaction.atomic
def _note_refusal(user: User, since: datetime, now: datetime) -> None:
    """Once, however often it is tried meanwhile: nothing is ever deleted from the trail."""
    with every_tenant():  # nobody is signed in whose rows could be seen
        if has_entry(subject=user, action=_BLOCKED, since=since):
            return
    actor = Actor(user_id=None, name="somebody")
    record_change(actor=actor, action=_BLOCKED, subject=user, now=now)
