from uuid import UUID

from django.db.models import QuerySet

from apps.audit.models import AuditEntry


def list_entries(*, tenant_id: UUID | None = None) -> QuerySet[AuditEntry]:
    """All entries, or those of one tenant; newest first."""
    entries = AuditEntry.objects.all()
    return entries if tenant_id is None else entries.filter(tenant_id=tenant_id)


def list_entries_of(*, subject_type: str, subject_id: str, limit: int = 3) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(subject_type=subject_type, subject_id=subject_id)[:limit])
