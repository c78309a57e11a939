from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q

from apps.common.ids import new_id
from apps.limits.policies import BIGGEST_AMOUNT, shown_limit
from apps.tenants.models import Tenant, User


class Setter(models.TextChoices):
    OPERATOR = "operator", "Operator"
    TENANT = "tenant", "Tenant admin"


class Scope(models.TextChoices):
    TENANT = "tenant", "The tenant"
    MEMBER = "member", "A member's keys"
    END_USER = "end_user", "An end user"
    KEY = "key", "A key"


class Kind(models.TextChoices):
    REQUESTS_PER_MINUTE = "requests_per_minute", "Requests per minute"
    TOKENS_PER_MINUTE = "tokens_per_minute", "Tokens per minute"
    CONCURRENT_REQUESTS = "concurrent_requests", "Requests at once"
    TOKENS_PER_DAY = "tokens_per_day", "Tokens per day"
    TOKENS_PER_MONTH = "tokens_per_month", "Tokens per month"
    COST_PER_DAY = "cost_per_day", "Cost per day"
    COST_PER_MONTH = "cost_per_month", "Cost per month"
    COST_TOTAL = "cost_total", "Cost in total"


_RANGE = [MinValueValidator(0), MaxValueValidator(BIGGEST_AMOUNT)]


class Limit(models.Model):
    """The fields are those of contracts.limits.LimitRule; money is in nanodollars.

    Without a tenant it is the default of every tenant that has no limit of its kind of its own. What an operator and
    what a tenant's admin set hold both, so that an admin's can only be stricter.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, null=True, blank=True, on_delete=models.CASCADE, related_name="limits")
    setter = models.CharField(max_length=20, choices=Setter.choices)
    scope = models.CharField(max_length=20, choices=Scope.choices)
    subject = models.CharField(max_length=256, blank=True)
    public_model = models.CharField(max_length=200, blank=True)
    kind = models.CharField(max_length=30, choices=Kind.choices)
    amount = models.BigIntegerField(validators=_RANGE)
    burst = models.BigIntegerField(null=True, blank=True, validators=_RANGE)
    soft_percent = models.PositiveSmallIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(100)]
    )
    raised_amount = models.BigIntegerField(null=True, blank=True, validators=_RANGE)
    raised_until = models.DateTimeField(null=True, blank=True)
    reset_count = models.PositiveIntegerField(default=0)
    reset_at = models.DateTimeField(null=True, blank=True)
    revision = models.PositiveIntegerField(default=0)
    changed_at = models.DateTimeField()
    counted_reratings = models.IntegerField(default=0)  # how many had been applied when its money was counted

    class Meta:
        ordering = ["scope", "kind", "public_model", "subject", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "setter", "scope", "subject", "public_model", "kind"],
                name="limit_is_unique",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(scope="tenant", subject="") | (~Q(scope="tenant") & ~Q(subject="")),
                name="limit_names_its_subject",
            ),
            models.CheckConstraint(condition=Q(amount__gte=0), name="limit_is_not_negative"),
            models.CheckConstraint(
                condition=Q(raised_amount=None, raised_until=None)
                | Q(raised_until__isnull=False, raised_amount__gte=F("amount")),
                name="raise_has_an_end",
            ),
        ]

    def __str__(self) -> str:
        return shown_limit(self.kind, self.amount, self.scope, self.subject, self.public_model)[:200]


class Block(models.Model):
    """Nothing is served to the subject while it stands."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="blocks")
    setter = models.CharField(max_length=20, choices=Setter.choices)
    scope = models.CharField(max_length=20, choices=Scope.choices)
    subject = models.CharField(max_length=256, blank=True)
    reason = models.CharField(max_length=200, blank=True)
    until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "setter", "scope", "subject"], name="block_is_unique"),
            models.CheckConstraint(
                condition=Q(scope="tenant", subject="") | (~Q(scope="tenant") & ~Q(subject="")),
                name="block_names_its_subject",
            ),
        ]

    def __str__(self) -> str:
        return f"block of {self.scope} {self.subject}".strip()


class LimitSettings(models.Model):
    """`degraded` as in contracts.limits.TenantLimits."""

    tenant = models.OneToOneField(Tenant, primary_key=True, on_delete=models.CASCADE, related_name="limit_settings")
    time_zone = models.CharField(max_length=64, default="UTC")
    degraded = models.CharField(
        max_length=20, choices=[("share", "Admit a share"), ("refuse", "Refuse")], default="share"
    )

    def __str__(self) -> str:
        return f"limit settings of {self.tenant}"


class RaiseState(models.TextChoices):
    PENDING = "pending", "Pending"
    APPROVED = "approved", "Approved"
    DECLINED = "declined", "Declined"


class RaiseRequest(models.Model):
    """A tenant asks for more: until a time, or for good."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    limit = models.ForeignKey(Limit, on_delete=models.CASCADE, related_name="raise_requests")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="raise_requests")
    amount = models.BigIntegerField(validators=_RANGE)
    until = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=500)
    state = models.CharField(max_length=20, choices=RaiseState.choices, default=RaiseState.PENDING)
    asked_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    asked_at = models.DateTimeField()
    answer = models.CharField(max_length=500, blank=True)
    decided_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["limit", "tenant"], condition=Q(state="pending"), name="one_pending_raise_request"
            ),
        ]

    def __str__(self) -> str:
        return f"raise of {self.limit}"


class LimitEvent(models.Model):
    """A soft limit was passed ("near"), or a limit refused a request ("reached")."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    at = models.DateTimeField()
    what = models.CharField(max_length=20)
    limit = models.ForeignKey(Limit, on_delete=models.CASCADE, related_name="events")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="limit_events")
    subject = models.CharField(max_length=256, blank=True)
    used = models.BigIntegerField()
    amount = models.BigIntegerField()

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["tenant", "-at"], name="limit_event_tenant")]

    def __str__(self) -> str:
        return f"{self.limit_then}: {self.what}"

    @property
    def limit_then(self) -> str:
        """With the amount that was met: it may be another one now."""
        of = self.limit
        return shown_limit(of.kind, self.amount, of.scope, of.subject, of.public_model)
