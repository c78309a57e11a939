from typing import Any

from django.db import models
from django.db.models import F, Q

from apps.common.ids import new_id
from apps.registry.models import Model, ModelVersion
from apps.tenants.models import Tenant
from workers.contracts.pricing import BASIS_POINTS


class PriceEntry(models.Model):
    """A line of the price book, in picodollars (1e-12 USD), for a version or for every version of a model.

    In force from `effective_from` until the next line of the same version or model; a version's own line goes before
    its model's. `created_at` makes the book versioned: the book as of a time consists of the lines made until then.
    Lines are never changed: of two from the same moment the one made later holds. `batch_discount_bp` is in basis
    points.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    version = models.ForeignKey(ModelVersion, null=True, blank=True, on_delete=models.CASCADE, related_name="prices")
    model = models.ForeignKey(Model, null=True, blank=True, on_delete=models.CASCADE, related_name="prices")
    effective_from = models.DateTimeField()
    input_pico_usd = models.PositiveBigIntegerField()
    cached_input_pico_usd = models.PositiveBigIntegerField()
    output_pico_usd = models.PositiveBigIntegerField()
    request_pico_usd = models.PositiveBigIntegerField(default=0)
    batch_discount_bp = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-effective_from", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["version", "model", "effective_from", "created_at"],
                name="price_line_is_unique",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(version__isnull=True, model__isnull=False) | Q(version__isnull=False, model__isnull=True),
                name="price_is_of_a_version_or_a_model",
            ),
            models.CheckConstraint(
                condition=Q(cached_input_pico_usd__lte=F("input_pico_usd")), name="cached_input_costs_no_more"
            ),
            models.CheckConstraint(
                condition=Q(batch_discount_bp__lte=BASIS_POINTS), name="batch_discount_is_at_most_all"
            ),
        ]

    def __str__(self) -> str:
        return f"price of {self.version or self.model} from {self.effective_from:%Y-%m-%d}"


class TenantDiscount(models.Model):
    """What a tenant pays less, in basis points, for a model or (None) for every model without a line of its own."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="discounts")
    model = models.ForeignKey(Model, null=True, blank=True, on_delete=models.CASCADE, related_name="discounts")
    discount_bp = models.PositiveIntegerField()
    effective_from = models.DateTimeField()
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-effective_from", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "model", "effective_from", "created_at"],
                name="discount_line_is_unique",
                nulls_distinct=False,
            ),
            models.CheckConstraint(condition=Q(discount_bp__lte=BASIS_POINTS), name="discount_is_at_most_all"),
        ]

    def __str__(self) -> str:
        return f"{self.discount_bp / 100:g} % off for {self.tenant} from {self.effective_from:%Y-%m-%d}"


class ReratingState(models.TextChoices):
    PREVIEWING = "previewing", "Previewing"
    PREVIEWED = "previewed", "Previewed"
    APPLYING = "applying", "Applying"
    APPLIED = "applied", "Applied"
    CANCELLED = "cancelled", "Cancelled"


RUNNING = (ReratingState.PREVIEWING, ReratingState.APPLYING)


class Rerating(models.Model):
    """The records from `start` to `end` priced anew by the price book as of `created_at`, in the background.

    It reads the records first and says what would change (`preview`), and does it once somebody confirms (`result`).
    Both are by tenant id: {"records", "changed", "before_pico_usd", "after_pico_usd"}. `cursor_at` and
    `cursor_id` are how far the pass that runs has come, so that a crash costs one batch.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    number = models.PositiveIntegerField(unique=True)
    start = models.DateTimeField()
    end = models.DateTimeField()
    reason = models.CharField(max_length=300)
    state = models.CharField(max_length=20, choices=ReratingState.choices, default=ReratingState.PREVIEWING)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)
    applied_at = models.DateTimeField(null=True, blank=True)
    cursor_at = models.DateTimeField(null=True, blank=True)
    cursor_id = models.UUIDField(null=True, blank=True)
    preview = models.JSONField(default=dict, blank=True)
    result = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=ReratingState.values), name="rerating_state_is_known"),
            models.CheckConstraint(condition=Q(end__gt=F("start")), name="rerating_ends_after_it_starts"),
        ]

    def __str__(self) -> str:
        return f"re-rating {self.number}"

    @property
    def is_running(self) -> bool:
        return self.state in RUNNING

    @property
    def figures(self) -> dict[str, Any]:
        is_result = self.state in (ReratingState.APPLYING, ReratingState.APPLIED)
        figures: dict[str, Any] = self.result if is_result else self.preview
        return figures
