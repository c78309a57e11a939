"""A tenant asks for more, an operator decides."""

from datetime import datetime
from decimal import Decimal

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import ConflictError, InvalidInputError
from apps.common.saving import save_checked
from apps.limits.models import Limit, RaiseRequest, RaiseState
from apps.limits.policies import amount_of, shown_amount, units_of
from apps.limits.services.limits import change_limit, raise_limit, set_limit
from apps.tenants.models import Tenant


@transaction.atomic
def ask_for_raise(
    *,
    actor: Actor,
    tenant: Tenant,
    limit: Limit,
    amount: Decimal,
    reason: str,
    now: datetime,
    until: datetime | None = None,
) -> RaiseRequest:
    units = units_of(limit.kind, amount)
    if units is None or units <= limit.amount:
        raise InvalidInputError("amount: more than the limit", fields={"amount": "ask for more than the limit"})
    if until is not None and until <= now:
        raise InvalidInputError("a raise ends in the future", fields={"until": "is past"})
    request = RaiseRequest(
        limit=limit,
        tenant=tenant,
        amount=units,
        until=until,
        reason=reason,
        asked_by_id=actor.user_id,
        asked_at=now,
    )
    save_checked(request)
    after = {"limit": str(limit), "amount": shown_amount(limit.kind, units), "reason": reason}
    record_change(actor=actor, action="raise.asked", subject=request, now=now, tenant_id=tenant.pk, after=after)
    return request


@transaction.atomic
def decide_raise(
    *, actor: Actor, request: RaiseRequest, is_approved: bool, now: datetime, answer: str = ""
) -> RaiseRequest:
    """An approved raise holds at once: until its end as a temporary one, or else for good."""
    request = RaiseRequest.objects.select_for_update(of=("self",)).select_related("limit", "tenant").get(pk=request.pk)
    if request.state != RaiseState.PENDING:
        raise ConflictError("this has been decided already")
    if is_approved:
        _grant(actor, request, now)
    request.state = RaiseState.APPROVED if is_approved else RaiseState.DECLINED
    request.answer, request.decided_by_id, request.decided_at = answer, actor.user_id, now
    save_checked(request)
    after = {"state": request.state, "answer": answer, "amount": shown_amount(request.limit.kind, request.amount)}
    record_change(
        actor=actor, action="raise.decided", subject=request, now=now, tenant_id=request.tenant_id, after=after
    )
    return request


def _grant(actor: Actor, request: RaiseRequest, now: datetime) -> None:
    limit, amount = _own_limit(actor, request, now), amount_of(request.limit.kind, request.amount)
    if request.until is not None:
        raise_limit(actor=actor, limit=limit, amount=amount, until=request.until, now=now)
    else:
        change_limit(
            actor=actor, limit=limit, amount=amount, burst=limit.burst, soft_percent=limit.soft_percent, now=now
        )


def _own_limit(actor: Actor, request: RaiseRequest, now: datetime) -> Limit:
    """What is raised for one tenant is not raised for all: of a default it gets a limit of its own first."""
    limit = request.limit
    if limit.tenant_id is not None:
        return Limit.objects.select_for_update().get(pk=limit.pk)
    return set_limit(
        actor=actor,
        tenant=request.tenant,
        scope=limit.scope,
        kind=limit.kind,
        amount=amount_of(limit.kind, limit.amount),
        subject=limit.subject,
        public_model=limit.public_model,
        burst=limit.burst,
        soft_percent=limit.soft_percent,
        now=now,
    )
