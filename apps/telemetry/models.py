from django.db import models

from apps.common.ids import new_id


class RequestDecision(models.Model):
    """Why one request was scheduled as it was; `body` is contracts.RequestDecision. Kept for a day, at most.

    Ids are plain values, as in a usage record: a request id is its client's own choice, and may come again.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant_id = models.UUIDField()
    request_id = models.CharField(max_length=128)
    arrived_at = models.DateTimeField()
    node_id = models.UUIDField()
    stored_at = models.DateTimeField()
    body = models.JSONField()

    class Meta:
        ordering = ["-arrived_at"]
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "request_id", "arrived_at"], name="decision_is_stored_once")
        ]
        indexes = [
            models.Index(fields=["request_id", "-arrived_at"], name="decision_of_request"),
            models.Index(fields=["stored_at"], name="decision_by_age"),
        ]

    def __str__(self) -> str:
        return f"decision on {self.request_id}"
