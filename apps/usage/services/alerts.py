"""Telling people that a budget's threshold is reached, by mail and by webhook, until it is told or given up."""

from collections.abc import Callable
from datetime import datetime, timedelta
from smtplib import SMTPException

import msgspec
from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db.models import F

from apps.usage.models import BudgetAlert, Channel
from apps.usage.policies.webhooks import next_try_at, signature
from apps.usage.services.budgets import webhook_key
from apps.usage.services.webhooks import UndeliveredError, post_json

MAX_A_TURN = 100
TIMEOUT_S = 10
_IN_WORK = timedelta(minutes=5)


def deliver_alerts(*, clock: Callable[[], datetime]) -> int:
    """How many were delivered. Each is claimed before it is sent, so that two processes do not both send it.

    A claim is of the moment in which it is made, as a turn of slow ones takes longer than a claim holds.
    """
    due = BudgetAlert.objects.filter(delivered_at=None, next_try_at__lte=clock())[:MAX_A_TURN]
    return sum(_deliver(alert, clock()) for alert in due.select_related("budget__tenant") if _claim(alert, clock()))


def _claim(alert: BudgetAlert, now: datetime) -> bool:
    waiting = BudgetAlert.objects.filter(pk=alert.pk, next_try_at=alert.next_try_at, delivered_at=None)
    claimed = waiting.update(next_try_at=now + _IN_WORK, attempts=F("attempts") + 1)
    alert.attempts += claimed
    return bool(claimed)


def _deliver(alert: BudgetAlert, now: datetime) -> bool:
    try:
        (_send_mail if alert.channel == Channel.MAIL else _send_webhook)(alert, now)
    except (UndeliveredError, SMTPException, OSError, ValueError) as error:  # the last of what no letter can hold
        alert.error, alert.next_try_at = str(error)[:300], next_try_at(alert.attempts, now)
    else:
        alert.error, alert.delivered_at = "", now
    facts = {name: getattr(alert, name) for name in ("error", "next_try_at", "delivered_at")}
    # One that was withdrawn meanwhile waits for being told so.
    BudgetAlert.objects.filter(pk=alert.pk, withdrawn_at=alert.withdrawn_at).update(**facts)
    return alert.delivered_at is not None


def _send_mail(alert: BudgetAlert, now: datetime) -> None:  # noqa: ARG001 - as the other way of sending
    if not settings.EMAIL_HOST and settings.EMAIL_BACKEND.endswith("smtp.EmailBackend"):
        raise UndeliveredError("no mail server is configured (TOKENYARD_SMTP_HOST)")
    connection = get_connection(timeout=TIMEOUT_S)
    EmailMessage(subject_of(alert), letter_of(alert), to=alert.budget.mail_to, connection=connection).send()


def _send_webhook(alert: BudgetAlert, now: datetime) -> None:
    body = msgspec.json.encode(facts_of(alert))
    signed = signature(webhook_key(alert.budget), body, sent_at_s=int(now.timestamp()))
    headers = {"x-tokenyard-signature": signed, "x-tokenyard-delivery": _delivery_of(alert)}
    post_json(alert.budget.webhook_url, body, headers=headers, timeout_s=TIMEOUT_S)


def _delivery_of(alert: BudgetAlert) -> str:
    """Stays the same however often one message is tried."""
    return f"{alert.pk}-withdrawn" if alert.withdrawn_at else str(alert.pk)


def subject_of(alert: BudgetAlert) -> str:
    way = "is forecast to reach" if alert.is_forecast else "has reached"
    if alert.withdrawn_at:
        way = "is below"
    name = " ".join(alert.budget.name.split())
    return f"Budget {name} {way} {alert.threshold_percent} % in {alert.month:%B %Y}"


def letter_of(alert: BudgetAlert) -> str:
    budget = alert.budget
    lines = [
        f"{subject_of(alert)}.",
        "",
        f"Spent: {alert.spent_usd:f} USD of {budget.amount_usd:f} USD",
        f"Month: {alert.month:%Y-%m} in {budget.zone}",
        f"Tenant: {budget.tenant.name if budget.tenant else 'everybody together'}",
        f"Model: {budget.public_model or 'every model'}",
        f"Alert: {alert.pk}, raised {alert.raised_at:%Y-%m-%d %H:%M} UTC",
    ]
    if alert.forecast_usd is not None:
        lines.insert(3, f"Forecast for the end of the month: {alert.forecast_usd:f} USD")
    if alert.withdrawn_at:
        lines.insert(1, "The message that said it was reached is taken back: a re-rating put prices right.")
    return "\n".join(lines)


def facts_of(alert: BudgetAlert) -> dict[str, str | int | bool | None]:
    budget = alert.budget
    return {
        "event": "budget.threshold_withdrawn" if alert.withdrawn_at else "budget.threshold_reached",
        "alert_id": str(alert.pk),
        "budget_id": str(budget.pk),
        "budget": budget.name,
        "tenant": budget.tenant.name if budget.tenant else None,
        "model": budget.public_model or None,
        "month": f"{alert.month:%Y-%m}",
        "zone": budget.zone,
        "amount_usd": str(budget.amount_usd),
        "spent_usd": format(alert.spent_usd, "f"),
        "forecast_usd": format(alert.forecast_usd, "f") if alert.forecast_usd is not None else None,
        "threshold_percent": alert.threshold_percent,
        "is_forecast": alert.is_forecast,
        "raised_at": alert.raised_at.isoformat(),
        "withdrawn_at": alert.withdrawn_at.isoformat() if alert.withdrawn_at else None,
    }
