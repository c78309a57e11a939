from django.db import models

from apps.common.ids import new_id


class AuditEntry(models.Model):
    """Who changed what, when. Append-only: a database trigger refuses changes. Names stand beside ids, which may go."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    at = models.DateTimeField()
    actor_id = models.UUIDField(null=True)
    actor_name = models.CharField(max_length=150)
    action = models.CharField(max_length=50)
    subject_type = models.CharField(max_length=50)
    subject_id = models.CharField(max_length=64)
    subject_name = models.CharField(max_length=200)
    tenant_id = models.UUIDField(null=True)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["tenant_id", "-id"], name="audit_tenant"),
            models.Index(fields=["subject_type", "subject_id", "-id"], name="audit_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.action} by {self.actor_name}"
