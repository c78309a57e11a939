from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from apps.common.ids import new_id
from apps.tenants.models import Tenant

MIN_WEIGHT = 0.01
MAX_WEIGHT = 1000.0


class ServiceClass(models.Model):
    """`rank` 0 is served first."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(max_length=63, unique=True)
    rank = models.PositiveSmallIntegerField(unique=True)

    class Meta:
        ordering = ["rank"]

    def __str__(self) -> str:
        return self.name


class SLOProfile(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(max_length=63, unique=True)
    ttft_ms = models.PositiveIntegerField()
    tpot_ms = models.PositiveIntegerField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class TenantPolicy(models.Model):
    """How a tenant's requests are treated. `weight` is its share among tenants of the same class."""

    tenant = models.OneToOneField(Tenant, primary_key=True, on_delete=models.CASCADE, related_name="policy")
    service_class = models.ForeignKey(ServiceClass, on_delete=models.PROTECT)
    slo_profile = models.ForeignKey(SLOProfile, on_delete=models.PROTECT)
    weight = models.FloatField(default=1.0, validators=[MinValueValidator(MIN_WEIGHT), MaxValueValidator(MAX_WEIGHT)])
    max_queued_requests = models.PositiveIntegerField(default=1000)

    class Meta:
        ordering = ["tenant__name"]
        constraints = [models.CheckConstraint(condition=Q(weight__gt=0), name="policy_weight_is_positive")]

    def __str__(self) -> str:
        return f"policy of {self.tenant}"
