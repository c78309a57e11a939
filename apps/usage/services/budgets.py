"""Budgets warn; what refuses is a money limit (apps/quotas)."""

from datetime import datetime
from decimal import Decimal
from zoneinfo import available_timezones

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.utils.crypto import salted_hmac

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import InvalidInputError
from apps.common.long_work import patient
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.tenants.models import Tenant
from apps.usage.models import Budget, BudgetAlert, Channel
from apps.usage.policies.forecast import Reached, reached
from apps.usage.policies.webhooks import target_of
from apps.usage.selectors.budgets import BudgetStatus, get_budget_status, list_moving_months

MAX_THRESHOLDS = 10
MAX_MAILS = 10
MAX_PERCENT = 1000
_KEY_SALT = "tokenyard.budget.webhook"


@transaction.atomic
def create_budget(
    *,
    actor: Actor,
    name: str,
    tenant: Tenant | None,
    amount_usd: Decimal,
    now: datetime,
    public_model: str = "",
    zone: str = "UTC",
    thresholds_percent: list[int] | None = None,
    mail_to: list[str] | None = None,
    webhook_url: str = "",
) -> Budget:
    budget = Budget(
        name=name,
        tenant=tenant,
        public_model=public_model,
        amount_usd=amount_usd,
        zone=zone,
        thresholds_percent=sorted(set(thresholds_percent or [50, 80, 100])),
        mail_to=mail_to or [],
        webhook_url=webhook_url,
        created_at=now,
    )
    _check(budget)
    save_checked(budget)
    _audit(actor=actor, action="budget.created", budget=budget, now=now)
    enqueue_on_commit("usage.watch_budgets")
    return budget


@transaction.atomic
def delete_budget(*, actor: Actor, budget: Budget, now: datetime) -> None:
    _audit(actor=actor, action="budget.deleted", budget=budget, now=now)
    budget.delete()


def webhook_key(budget: Budget) -> str:
    """What its webhooks are signed with; made of the installation's secret key, and kept nowhere."""
    return salted_hmac(_KEY_SALT, str(budget.pk), algorithm="sha256").hexdigest()


@patient
def watch_budgets(*, now: datetime) -> None:
    for budget in Budget.objects.select_related("tenant"):
        for month in list_moving_months(budget, now=now):
            _watch(get_budget_status(budget, now=now, month=month), now)


def _watch(status: BudgetStatus, now: datetime) -> None:
    budget = status.budget
    found = reached(
        budget.thresholds_percent,
        amount_usd=budget.amount_usd,
        spent_usd=status.spent_usd,
        expected_usd=status.forecast_usd,
    )
    _withdraw_alerts(status, [each.threshold_percent for each in found if not each.is_forecast], now)
    for each in found:
        _raise_alerts(status, each, now)


@transaction.atomic
def _withdraw_alerts(status: BudgetStatus, spent_percents: list[int], now: datetime) -> None:
    """Spend falls where a re-rating puts prices right. A forecast rises and falls by itself, and is left alone."""
    raised = status.budget.alerts.filter(month=status.month.first_day, is_forecast=False, withdrawn_at=None)
    fallen = raised.exclude(threshold_percent__in=spent_percents)
    facts = {"spent_usd": status.spent_usd, "forecast_usd": status.forecast_usd, "withdrawn_at": now}
    fallen.filter(attempts=0).update(**facts, next_try_at=None)
    fallen.update(**facts, next_try_at=now, delivered_at=None, attempts=0, error="")


def _raise_alerts(status: BudgetStatus, each: Reached, now: datetime) -> None:
    """Once a month for each threshold, way and channel; that is the database's to see to."""
    budget = status.budget
    channels = [Channel.MAIL] * bool(budget.mail_to) + [Channel.WEBHOOK] * bool(budget.webhook_url)
    alerts = [
        BudgetAlert(
            budget=budget,
            month=status.month.first_day,
            threshold_percent=each.threshold_percent,
            is_forecast=each.is_forecast,
            channel=channel,
            spent_usd=status.spent_usd,
            forecast_usd=status.forecast_usd,
            raised_at=now,
            next_try_at=now,
        )
        for channel in channels
    ]
    BudgetAlert.objects.bulk_create(alerts, ignore_conflicts=True)


def _check(budget: Budget) -> None:
    if budget.zone not in available_timezones():
        raise InvalidInputError("there is no such time zone", fields={"zone": "is not an IANA time zone"})
    if budget.webhook_url and target_of(budget.webhook_url) is None:
        raise InvalidInputError("a webhook has an http or https address", fields={"webhook_url": "is not an address"})
    percents = budget.thresholds_percent
    if len(percents) > MAX_THRESHOLDS or not all(0 < percent <= MAX_PERCENT for percent in percents):
        raise InvalidInputError(
            f"thresholds are from 1 to {MAX_PERCENT} per cent, {MAX_THRESHOLDS} at most",
            fields={"thresholds_percent": "is out of range"},
        )
    _check_mails(budget.mail_to)


def _check_mails(addresses: list[str]) -> None:
    if len(addresses) > MAX_MAILS:
        raise InvalidInputError(f"{MAX_MAILS} mail addresses at most", fields={"mail_to": "has too many"})
    for address in addresses:
        try:
            validate_email(address)
        except ValidationError as error:
            raise InvalidInputError("not a mail address", fields={"mail_to": f"{address} is not one"}) from error


def _audit(*, actor: Actor, action: str, budget: Budget, now: datetime) -> None:
    after = {"amount_usd": str(budget.amount_usd), "zone": budget.zone, "thresholds_percent": budget.thresholds_percent}
    facts = {**after, "public_model": budget.public_model, "has_webhook": bool(budget.webhook_url)}
    record_change(actor=actor, action=action, subject=budget, now=now, tenant_id=budget.tenant_id, after=facts)
