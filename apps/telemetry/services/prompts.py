"""Prompts that a tenant asked to be kept: the choice, what gateways send, who reads, and the end of it."""

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import InvalidInputError
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.telemetry.models import KeptPrompt, PromptChoice
from apps.telemetry.policies import MAX_KEPT_DAYS
from apps.telemetry.selectors.prompts import list_keeping_tenants, opened, records_with_text
from apps.tenants.models import Tenant
from workers.contracts.prompts import SealedPrompt

log = logging.getLogger(__name__)

PUBLISH = "routing.publish"
MAX_KEPT = 1_000_000


@transaction.atomic
def keep_prompts(*, actor: Actor, tenant: Tenant, days: int, now: datetime) -> PromptChoice:
    """From now on, each for so many days; those kept so far are kept as long as these."""
    if not 1 <= days <= MAX_KEPT_DAYS:
        message = f"must be from 1 to {MAX_KEPT_DAYS} days"
        raise InvalidInputError(f"days {message}", fields={"days": message})
    found = PromptChoice.objects.select_for_update().filter(tenant=tenant).first()
    before = {"days": found.days} if found else {}
    choice = found or PromptChoice(tenant=tenant, since=now)
    choice.days = days
    save_checked(choice)
    _record(actor, "prompts.kept", tenant, now, before=before, after={"days": days})
    return choice


@transaction.atomic
def forget_prompts_of(*, actor: Actor, tenant: Tenant, now: datetime) -> int:
    """Nothing is kept any more, and what was is deleted; how many that were."""
    was_on, _ = PromptChoice.objects.filter(tenant=tenant).delete()
    deleted, _ = KeptPrompt.objects.filter(tenant=tenant).delete()
    if was_on:
        _record(actor, "prompts.forgotten", tenant, now, after={"deleted": deleted})
    return deleted


@transaction.atomic
def read_prompt(*, actor: Actor, kept: KeptPrompt, now: datetime) -> str:
    """Who reads a prompt is named in the audit."""
    text = opened(kept)
    record_change(actor=actor, action="prompt.read", subject=kept, now=now, tenant_id=kept.tenant_id)
    return text


@transaction.atomic
def search_prompts(
    *, actor: Actor, tenant: Tenant, words: str, start: datetime, end: datetime, now: datetime
) -> set[UUID]:
    """The usage records of those that have the words in them. Who searched is named in the audit, what for is not."""
    found = records_with_text(actor=actor, tenant_id=tenant.pk, words=words, start=start, end=end)
    record_change(actor=actor, action="prompts.searched", subject=tenant, now=now, tenant_id=tenant.pk)
    return found


def store_prompts(*, prompts: Sequence[SealedPrompt], now: datetime) -> int:
    """Each once, however often it comes. Of a tenant that keeps none any more nothing is stored."""
    keeping = list_keeping_tenants()
    rows = [row for row in _rows_of(prompts, now) if row.tenant_id in keeping]
    KeptPrompt.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def forget_old_prompts(*, now: datetime) -> int:
    """Those that are older than their tenant wants, and the oldest of those that are too many."""
    forgotten = _forget_unwanted()
    for choice in PromptChoice.objects.all():
        old = KeptPrompt.objects.filter(tenant_id=choice.tenant_id, arrived_at__lt=now - timedelta(days=choice.days))
        forgotten += old.delete()[0]
    beyond = KeptPrompt.objects.order_by("-arrived_at").values_list("arrived_at", flat=True)[MAX_KEPT : MAX_KEPT + 1]
    for arrived_at in beyond:
        forgotten += KeptPrompt.objects.filter(arrived_at__lte=arrived_at).delete()[0]
    return forgotten


def _forget_unwanted() -> int:
    """What was stored by who had looked just before a tenant took its choice back."""
    return KeptPrompt.objects.exclude(tenant__in=PromptChoice.objects.values("tenant")).delete()[0]


def _record(
    actor: Actor,
    action: str,
    tenant: Tenant,
    now: datetime,
    *,
    before: dict[str, int] | None = None,
    after: dict[str, int],
) -> None:
    record_change(actor=actor, action=action, subject=tenant, now=now, tenant_id=tenant.pk, before=before, after=after)
    enqueue_on_commit(PUBLISH)


def _rows_of(prompts: Iterable[SealedPrompt], now: datetime) -> Iterable[KeptPrompt]:
    for prompt in prompts:
        try:
            yield KeptPrompt(
                record_id=UUID(prompt.record_id),
                tenant_id=UUID(prompt.tenant_id),
                arrived_at=datetime.fromtimestamp(prompt.arrived_at, UTC),
                stored_at=now,
                sealed=prompt.sealed,
            )
        except (ValueError, OverflowError, OSError) as error:
            log.warning("a prompt was dropped", extra={"error": type(error).__name__})
