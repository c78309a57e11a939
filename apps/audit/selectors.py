from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from uuid import UUID

from django.db.models import Model, Q, QuerySet

from apps.audit.models import AuditEntry


def list_entries(*, tenant_id: UUID | None = None) -> QuerySet[AuditEntry]:
    """All entries, or those of one tenant; newest first."""
    entries = AuditEntry.objects.all()
    return entries if tenant_id is None else entries.filter(tenant_id=tenant_id)


def list_entries_of(*, subject_type: str, subject_id: str, limit: int = 3) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(subject_type=subject_type, subject_id=subject_id)[:limit])


def has_entry(*, subject: Model, action: str, since: datetime) -> bool:
    name = subject._meta.model_name or ""  # noqa: SLF001 - Django's documented API
    of_it = AuditEntry.objects.filter(subject_type=name, subject_id=str(subject.pk))
    return of_it.filter(action=action, at__gte=since).exists()


@dataclass(frozen=True, kw_only=True)
class AuditQuery:
    """`tenant_ids` None stands for all, and for what is no tenant's; empty texts and None ask nothing."""

    tenant_ids: list[UUID] | None = None
    actor_id: UUID | None = None
    action: str = ""
    subject_type: str = ""
    subject_id: str = ""
    since: datetime | None = None
    until: datetime | None = None
    search: str = ""


def list_matching(query: AuditQuery) -> QuerySet[AuditEntry]:
    entries = AuditEntry.objects.all()
    if query.tenant_ids is not None:
        entries = entries.filter(tenant_id__in=query.tenant_ids)
    exact = {name: getattr(query, name) for name in ("actor_id", "action", "subject_type", "subject_id")}
    exact |= {"at__gte": query.since, "at__lt": query.until}
    entries = entries.filter(**{name: value for name, value in exact.items() if value})
    return entries.filter(_holds(query.search)) if query.search else entries


def in_order(query: AuditQuery, *, is_oldest_first: bool) -> QuerySet[AuditEntry]:
    """Ids are by time."""
    return list_matching(query).order_by("pk" if is_oldest_first else "-pk")


def page_of_entries(
    query: AuditQuery, *, before: UUID | None = None, size: int = 50, is_oldest_first: bool = False
) -> tuple[list[AuditEntry], bool]:
    """Those that come after the entry `before` in their order (newest first), and whether there are more."""
    entries = in_order(query, is_oldest_first=is_oldest_first)
    if before is not None:
        entries = entries.filter(pk__gt=before) if is_oldest_first else entries.filter(pk__lt=before)
    found = list(entries[: size + 1])
    return found[:size], len(found) > size


def _holds(search: str) -> Q:
    return reduce(or_, (Q(**{f"{name}__icontains": search}) for name in ("actor_name", "action", "subject_name")))
