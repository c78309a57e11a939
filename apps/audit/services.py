from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Model

from apps.audit.models import AuditEntry
from apps.audit.policies import without_secrets
from apps.common.actors import Actor

_noted: ContextVar[list[AuditEntry] | None] = ContextVar("noted_entries", default=None)


@contextmanager
def noting() -> Iterator[list[AuditEntry]]:
    """What is recorded meanwhile, for who wants to show what a change would do."""
    entries: list[AuditEntry] = []
    token = _noted.set(entries)
    try:
        yield entries
    finally:
        _noted.reset(token)


def record_change(
    *,
    actor: Actor,
    action: str,
    subject: Model,
    now: datetime,
    tenant_id: UUID | None = None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """Part of the caller's transaction, so that there is no change without its entry."""
    entry = AuditEntry.objects.create(
        at=now,
        actor_id=actor.user_id,
        actor_name=actor.name,
        action=action,
        subject_type=subject._meta.model_name or "",  # noqa: SLF001 - Django's documented API
        subject_id=str(subject.pk),
        subject_name=str(subject)[:200],
        tenant_id=tenant_id,
        before=without_secrets(before or {}),
        after=without_secrets(after or {}),
    )
    if (noted := _noted.get()) is not None:
        noted.append(entry)
