from typing import ClassVar

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q

from apps.usage.policies.slots import SLOT

TASK_USAGE = ("task_id", "slot", "tenant_id", "user_id", "key_id", "version_id", "public_model", "workflow_id")


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


class TaskUsage(models.Model):
    """What the requests of a reported task cost, by quarter of an hour and by whose they were.

    Written in the transaction that stores a record, or the first report of its task, whichever comes later, and in the
    one that prices the record anew. `workflow_id` is that of the requests.
    """

    dimensions = TASK_USAGE
    grain: ClassVar = SLOT

    id = models.BigAutoField(primary_key=True)
    task_id = models.BigIntegerField()
    slot = models.DateTimeField()
    tenant_id = models.UUIDField()
    user_id = models.UUIDField(null=True)
    key_id = models.UUIDField(null=True)
    version_id = models.UUIDField(null=True)
    public_model = models.CharField(max_length=200)
    workflow_id = models.CharField(max_length=128)
    cost_usd = models.DecimalField(max_digits=30, decimal_places=12)

    class Meta:
        db_table = "task_usage"
        constraints = [models.UniqueConstraint(fields=TASK_USAGE, name="task_usage_is_unique", nulls_distinct=False)]
        indexes = [
            BrinIndex(fields=["slot"], name="task_usage_time", autosummarize=True, pages_per_range=16),
            models.Index(fields=["tenant_id", "slot"], name="task_usage_tenant"),
        ]

    def __str__(self) -> str:
        return f"usage of task {self.task_id}"
