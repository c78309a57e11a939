from functools import reduce
from operator import or_
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.audit.models import AuditEntry


def list_entries(*, tenant_id: UUID | None = None) -> QuerySet[AuditEntry]:
    """All entries, or those of one tenant; newest first."""
    entries = AuditEntry.objects.all()
    return entries if tenant_id is None else entries.filter(tenant_id=tenant_id)


def list_entries_of(*, subject_type: str, subject_id: str, limit: int = 3) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(subject_type=subject_type, subject_id=subject_id)[:limit])


def page_of_entries(*, search: str = "", before: UUID | None = None, size: int = 50) -> tuple[list[AuditEntry], bool]:
    """Newest first, those older than the entry `before`, and whether there are more."""
    entries = AuditEntry.objects.all()
    if search:
        words = (Q(**{f"{name}__icontains": search}) for name in ("actor_name", "action", "subject_name"))
        entries = entries.filter(reduce(or_, words))
    if before is not None:
        entries = entries.filter(pk__lt=before)
    found = list(entries[: size + 1])
    return found[:size], len(found) > size
