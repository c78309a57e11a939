"""Setting, raising, resetting and removing limits. Gateways hold what is written here within two seconds."""

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import ConflictError, InvalidInputError
from apps.common.saving import lock_row, save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.limits.models import Block, Limit, LimitSettings
from apps.limits.policies import is_zone, problem_of, setter_of, shown_amount, units_of
from apps.limits.selectors.limits import get_settings
from apps.tenants.models import APIKey, Tenant
from apps.tenants.selectors import list_key_origins
from apps.tenants.services import PUBLISH
from apps.usage.selectors.reratings import count_applied_reratings

RECOUNT = "limits.recount"


@transaction.atomic
def set_limit(
    *,
    actor: Actor,
    tenant: Tenant | None,
    scope: str,
    kind: str,
    amount: Decimal,
    now: datetime,
    subject: str = "",
    public_model: str = "",
    burst: int | None = None,
    soft_percent: int | None = None,
) -> Limit:
    """Makes it, or changes the one that the same people set for the same. Money is in dollars."""
    subject = _known_subject(tenant, scope, subject)
    named = {
        "setter": setter_of(actor), "scope": scope, "subject": subject, "public_model": public_model, "kind": kind,
    }  # fmt: skip
    limit = Limit.objects.select_for_update().filter(tenant=tenant, **named).first()
    limit = limit or Limit(tenant=tenant, counted_reratings=count_applied_reratings(), **named)
    return change_limit(actor=actor, limit=limit, amount=amount, burst=burst, soft_percent=soft_percent, now=now)


@transaction.atomic
def change_limit(
    *,
    actor: Actor,
    limit: Limit,
    amount: Decimal,
    now: datetime,
    burst: int | None = None,
    soft_percent: int | None = None,
) -> Limit:
    is_new = limit._state.adding  # noqa: SLF001 - Django's documented API
    if not is_new:
        lock_row(limit)
    before = {} if is_new else _state_of(limit)
    limit.amount = _units(limit.kind, amount)
    limit.burst, limit.soft_percent = burst, soft_percent
    problem = problem_of(
        setter=limit.setter,
        scope=limit.scope,
        subject=limit.subject,
        kind=limit.kind,
        amount=limit.amount,
        burst=burst,
    )
    if problem is not None:
        raise InvalidInputError(f"{problem[0]}: {problem[1]}", fields={problem[0]: problem[1]})
    if limit.raised_amount is not None and limit.raised_amount < limit.amount:
        limit.raised_amount = limit.raised_until = None
    return _save(actor, limit, "limit.set", before, now)


@transaction.atomic
def raise_limit(*, actor: Actor, limit: Limit, amount: Decimal, until: datetime, now: datetime) -> Limit:
    """Until then, this holds instead."""
    lock_row(limit)
    units = _units(limit.kind, amount)
    if units < limit.amount:
        raise InvalidInputError("a raise is not less than the limit", fields={"amount": "less than the limit"})
    if until <= now:
        raise InvalidInputError("a raise ends in the future", fields={"until": "is past"})
    before = _state_of(limit)
    limit.raised_amount, limit.raised_until = units, until
    return _save(actor, limit, "limit.raised", before, now)


@transaction.atomic
def end_raise(*, actor: Actor, limit: Limit, now: datetime) -> Limit:
    lock_row(limit)
    before = _state_of(limit)
    limit.raised_amount = limit.raised_until = None
    return _save(actor, limit, "limit.raise_ended", before, now)


@transaction.atomic
def reset_limit(*, actor: Actor, limit: Limit, now: datetime) -> Limit:
    """What was used so far counts no more; nothing is taken from any report."""
    if limit.kind == "concurrent_requests":
        raise ConflictError("places are free when their requests end; there is nothing to reset")
    lock_row(limit)
    before = _state_of(limit)
    limit.reset_count += 1
    limit.reset_at = now
    return _save(actor, limit, "limit.reset", before, now)


@transaction.atomic
def remove_limit(*, actor: Actor, limit: Limit, now: datetime) -> None:
    lock_row(limit)
    record_change(
        actor=actor,
        action="limit.removed",
        subject=limit,
        now=now,
        tenant_id=limit.tenant_id,
        before=_state_of(limit),
    )
    limit.delete()
    enqueue_on_commit(PUBLISH)


@transaction.atomic
def block(
    *,
    actor: Actor,
    tenant: Tenant,
    scope: str,
    now: datetime,
    subject: str = "",
    reason: str = "",
    until: datetime | None = None,
) -> Block:
    setter = setter_of(actor)
    problem = problem_of(setter=setter, scope=scope, subject=subject, kind="", amount=0, burst=None)
    if problem is not None or subject == "*":
        field, text = problem or ("subject", "name one; to stop everybody, block the tenant")
        raise InvalidInputError(f"{field}: {text}", fields={field: text})
    if until is not None and until <= now:
        raise InvalidInputError("a block ends in the future", fields={"until": "is past"})
    subject = _known_subject(tenant, scope, subject)
    row = Block(tenant=tenant, setter=setter, scope=scope, subject=subject, reason=reason, until=until, created_at=now)
    Block.objects.filter(tenant=tenant, setter=setter, scope=scope, subject=subject).delete()
    save_checked(row)
    after = {"scope": scope, "subject": subject, "reason": reason, "until": until.isoformat() if until else ""}
    record_change(actor=actor, action="block.set", subject=row, now=now, tenant_id=tenant.pk, after=after)
    enqueue_on_commit(PUBLISH)
    return row


@transaction.atomic
def lift_block(*, actor: Actor, block: Block, now: datetime) -> None:
    before = {"scope": block.scope, "subject": block.subject, "reason": block.reason}
    record_change(actor=actor, action="block.lifted", subject=block, now=now, tenant_id=block.tenant_id, before=before)
    block.delete()
    enqueue_on_commit(PUBLISH)


@transaction.atomic
def set_limit_settings(*, actor: Actor, tenant: Tenant, time_zone: str, degraded: str, now: datetime) -> LimitSettings:
    """Periods begin anew in another zone, with what was used in them there."""
    if not is_zone(time_zone):
        raise InvalidInputError("no such time zone", fields={"time_zone": "give an IANA name, as Europe/Berlin"})
    settings = get_settings(tenant.pk)
    before = {"time_zone": settings.time_zone, "degraded": settings.degraded}
    settings.tenant, settings.time_zone, settings.degraded = tenant, time_zone, degraded
    save_checked(settings)
    after = {"time_zone": time_zone, "degraded": degraded}
    record_change(
        actor=actor,
        action="limit_settings.set",
        subject=settings,
        now=now,
        tenant_id=tenant.pk,
        before=before,
        after=after,
    )
    _wake_gateways()
    return settings


def _save(actor: Actor, limit: Limit, action: str, before: dict[str, Any], now: datetime) -> Limit:
    limit.revision += 1
    limit.changed_at = now
    save_checked(limit)
    record_change(
        actor=actor,
        action=action,
        subject=limit,
        now=now,
        tenant_id=limit.tenant_id,
        before=before,
        after=_state_of(limit),
    )
    _wake_gateways()
    return limit


def _wake_gateways() -> None:
    """Use is counted before a gateway asks for it."""
    enqueue_on_commit(RECOUNT)
    enqueue_on_commit(PUBLISH)


def _units(kind: str, amount: Decimal) -> int:
    units = units_of(kind, amount)
    if units is None:
        raise InvalidInputError("amount: a whole number, or dollars", fields={"amount": "out of range or not whole"})
    return units


def _known_subject(tenant: Tenant | None, scope: str, subject: str) -> str:
    """A key or member of another tenant would be one that nobody here can see. A rotated key is still the first one."""
    if subject in {"", "*"} or tenant is None:
        return subject
    is_known = {
        "key": lambda: APIKey.objects.filter(tenant=tenant, pk=subject).exists(),
        "member": lambda: (
            tenant.memberships.filter(user_id=subject).exists()
            or APIKey.objects.filter(tenant=tenant, owner_id=UUID(subject)).exists()
        ),
    }.get(scope)
    problem = problem_of(setter="", scope=scope, subject=subject, kind="", amount=0, burst=None)
    if problem is None and is_known is not None and not is_known():
        raise InvalidInputError(f"no such {scope} here", fields={"subject": f"no such {scope} here"})
    return list_key_origins(tenant.pk).get(tenant.pk, {}).get(subject, subject) if scope == "key" else subject


def _state_of(limit: Limit) -> dict[str, Any]:
    return {
        "amount": shown_amount(limit.kind, limit.amount),
        "burst": limit.burst,
        "soft_percent": limit.soft_percent,
        "raised_amount": shown_amount(limit.kind, limit.raised_amount),
        "raised_until": limit.raised_until.isoformat() if limit.raised_until else "",
        "reset_count": limit.reset_count,
    }
