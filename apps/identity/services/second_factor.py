"""TOTP devices and the recovery codes that stand in for them."""

import secrets
from datetime import datetime

import pyotp
from django.conf import settings
from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.credentials import sha256_of
from apps.common.errors import ConflictError, InvalidInputError
from apps.identity.models import RecoveryCode, SecondFactor
from apps.identity.policies import RECOVERY_CODES, matching_step, normal_code, seal, unseal
from apps.tenants.models import User

_CODE_BYTES = 10


@transaction.atomic
def begin_enrolment(*, user: User, now: datetime) -> str:
    """The secret for the device to keep. It counts once a code has proved that the device has it."""
    found = SecondFactor.objects.select_for_update().filter(user=user).first()
    if found is not None and found.confirmed_at is not None:
        raise ConflictError("a device is enrolled already; remove it first")
    if found is not None:
        return unseal(found.sealed_secret, settings.SECRET_KEY)
    secret = pyotp.random_base32()
    SecondFactor.objects.create(user=user, sealed_secret=seal(secret, settings.SECRET_KEY), created_at=now)
    return secret


@transaction.atomic
def confirm_enrolment(*, actor: Actor, user: User, code: str, now: datetime) -> list[str]:
    """The recovery codes, which are nowhere else."""
    found = SecondFactor.objects.select_for_update().filter(user=user, confirmed_at=None).first()
    step = None if found is None else _step_of(found, code, now)
    if found is None or step is None:
        raise InvalidInputError("that is not the device's code now", fields={"code": "is not the device's code now"})
    found.confirmed_at, found.last_step = now, step
    found.save(update_fields=["confirmed_at", "last_step"])
    record_change(actor=actor, action="user.second_factor_added", subject=user, now=now)
    return _issue_recovery_codes(user)


@transaction.atomic
def renew_recovery_codes(*, actor: Actor, user: User, now: datetime) -> list[str]:
    SecondFactor.objects.select_for_update().filter(user=user).first()  # two at once would leave twice as many
    record_change(actor=actor, action="user.recovery_codes_renewed", subject=user, now=now)
    return _issue_recovery_codes(user)


@transaction.atomic
def remove_second_factor(*, actor: Actor, user: User, now: datetime) -> None:
    RecoveryCode.objects.filter(user=user).delete()
    deleted, _ = SecondFactor.objects.filter(user=user).delete()
    if deleted:
        record_change(actor=actor, action="user.second_factor_removed", subject=user, now=now)


@transaction.atomic
def use_code(*, user: User, code: str, now: datetime) -> bool:
    """Takes a code once, whatever tries it twice at the same time."""
    found = SecondFactor.objects.filter(user=user, confirmed_at__isnull=False).first()
    if found is None:
        return False
    step = _step_of(found, code, now)
    if step is not None:
        newer = SecondFactor.objects.filter(user=user, last_step__lt=step)
        return newer.update(last_step=step) == 1
    unused = RecoveryCode.objects.filter(user=user, code_sha256=sha256_of(normal_code(code)), used_at=None)
    return unused.update(used_at=now) == 1


def _step_of(found: SecondFactor, code: str, now: datetime) -> int | None:
    return matching_step(unseal(found.sealed_secret, settings.SECRET_KEY), normal_code(code), now.timestamp())


def _issue_recovery_codes(user: User) -> list[str]:
    codes = [secrets.token_hex(_CODE_BYTES) for _ in range(RECOVERY_CODES)]
    RecoveryCode.objects.filter(user=user).delete()
    RecoveryCode.objects.bulk_create([RecoveryCode(user=user, code_sha256=sha256_of(code)) for code in codes])
    return ["-".join(code[start : start + 5] for start in range(0, len(code), 5)) for code in codes]
