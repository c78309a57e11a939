from django.db import models
from django.db.models import Q


class TaskOutcome(models.Model):
    """The newest report about a task of a tenant: a request or a workflow, whichever id is not empty."""

    id = models.BigAutoField(primary_key=True)
    tenant_id = models.UUIDField()
    request_id = models.CharField(max_length=128, blank=True)
    workflow_id = models.CharField(max_length=128, blank=True)
    is_success = models.BooleanField()
    value_usd = models.DecimalField(max_digits=24, decimal_places=12, null=True)
    key_id = models.UUIDField(null=True)
    reported_at = models.DateTimeField()
    received_at = models.DateTimeField()

    class Meta:
        db_table = "task_outcome"
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "request_id", "workflow_id"], name="task_outcome_is_unique"),
            models.CheckConstraint(
                condition=Q(request_id="") & ~Q(workflow_id="") | ~Q(request_id="") & Q(workflow_id=""),
                name="task_outcome_is_of_a_request_or_a_workflow",
            ),
        ]
        indexes = [models.Index(fields=["tenant_id", "reported_at"], name="task_outcome_time")]

    def __str__(self) -> str:
        return f"outcome of {self.request_id or self.workflow_id}"
