from django.db import models
from django.db.models import Q

from apps.common.ids import new_id
from apps.telemetry.policies import MAX_KEPT_DAYS
from apps.tenants.models import Tenant


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


class PromptChoice(models.Model):
    """A tenant that has its prompts kept, each for `days`. Without a row nothing is kept, which is how all begin."""

    tenant = models.OneToOneField(Tenant, primary_key=True, on_delete=models.CASCADE, related_name="prompt_choice")
    days = models.PositiveSmallIntegerField()
    since = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(days__gte=1, days__lte=MAX_KEPT_DAYS), name="prompts_are_kept_for_days")
        ]

    def __str__(self) -> str:
        return f"prompts of {self.tenant}, kept for {self.days} days"


class KeptPrompt(models.Model):
    """The prompt of the request with the usage record `record_id`, as its gateway sealed it (contracts/prompts.py)."""

    record_id = models.UUIDField(primary_key=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    arrived_at = models.DateTimeField()
    stored_at = models.DateTimeField()
    sealed = models.TextField()

    class Meta:
        ordering = ["-arrived_at"]
        indexes = [models.Index(fields=["tenant", "-arrived_at"], name="prompt_of_tenant")]

    def __str__(self) -> str:
        return f"prompt of {self.record_id}"
