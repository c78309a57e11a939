from django.db import models
from django.db.models import Q

from apps.common.ids import new_id
from apps.tenants.models import Tenant


class Channel(models.TextChoices):
    MAIL = "mail", "Mail"
    WEBHOOK = "webhook", "Webhook"


class Budget(models.Model):
    """What a tenant (None: everybody together) means to spend in a calendar month of `zone`; it warns, never refuses.

    It alerts when the spend, or the spend forecast for the end of the month, reaches one of `thresholds_percent`.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=100)
    tenant = models.ForeignKey(Tenant, null=True, blank=True, on_delete=models.CASCADE, related_name="spend_budgets")
    public_model = models.CharField(max_length=200, blank=True)
    amount_usd = models.DecimalField(max_digits=20, decimal_places=2)
    zone = models.CharField(max_length=64, default="UTC")
    thresholds_percent = models.JSONField(default=list)
    mail_to = models.JSONField(default=list, blank=True)
    webhook_url = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="budget_name_is_unique", nulls_distinct=False),
            models.CheckConstraint(condition=Q(amount_usd__gt=0), name="budget_is_positive"),
        ]

    def __str__(self) -> str:
        return self.name


class BudgetAlert(models.Model):
    """One threshold reached in one month, told once by each channel; tried again until it is delivered or given up.

    One that a re-rating took back is withdrawn: who may have been told is told so, and the threshold counts again.
    `spent_usd` and `forecast_usd` are what the newest message says.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="alerts")
    month = models.DateField()
    threshold_percent = models.PositiveIntegerField()
    is_forecast = models.BooleanField()
    channel = models.CharField(max_length=20, choices=Channel.choices)
    spent_usd = models.DecimalField(max_digits=30, decimal_places=12)
    forecast_usd = models.DecimalField(max_digits=30, decimal_places=12, null=True)
    raised_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["budget", "month", "threshold_percent", "is_forecast", "channel"],
                condition=Q(withdrawn_at=None),
                name="budget_alert_is_unique",
            )
        ]

    def __str__(self) -> str:
        return f"{self.budget}: {self.threshold_percent} %"
