from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q

from apps.common.ids import new_id
from apps.registry.models import ModelVersion

PICO_PER_USD = 10**12


class UsageRecord(models.Model):
    """One request, exactly once; the fields are those of contracts.UsageRecord.

    Partitioned by day of `arrived_at`. Ids are plain values, not foreign keys: what was used outlives what it was used
    with. None stands for a part of the path that the request never reached.
    """

    pk = models.CompositePrimaryKey("record_id", "arrived_at")
    record_id = models.UUIDField()
    arrived_at = models.DateTimeField()
    gateway_id = models.CharField(max_length=64)
    boot_id = models.CharField(max_length=64)
    sequence = models.BigIntegerField()
    request_id = models.CharField(max_length=128)
    tenant_id = models.UUIDField(null=True)
    key_id = models.UUIDField(null=True)
    user_id = models.UUIDField(null=True)
    end_user = models.CharField(max_length=256)
    path = models.CharField(max_length=100)
    public_model = models.CharField(max_length=200)
    version_id = models.UUIDField(null=True)
    deployment_id = models.UUIDField(null=True)
    replica_id = models.UUIDField(null=True)
    node_id = models.UUIDField(null=True)
    service_class = models.CharField(max_length=63)
    is_stream = models.BooleanField()
    status = models.SmallIntegerField()
    outcome = models.CharField(max_length=20)
    usage_source = models.CharField(max_length=20)
    input_tokens = models.BigIntegerField()
    cached_input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    reasoning_tokens = models.BigIntegerField()
    queue_ms = models.FloatField(null=True)
    ttft_ms = models.FloatField(null=True)
    total_ms = models.FloatField()
    cost_usd = models.DecimalField(max_digits=24, decimal_places=12)
    is_cost_mismatch = models.BooleanField()
    attempts = models.SmallIntegerField()
    error_code = models.CharField(max_length=100)
    tags = models.JSONField()
    workflow_id = models.CharField(max_length=128, db_default="")
    wasted_tokens = models.BigIntegerField(db_default=0)
    engine_ms = models.FloatField(null=True)

    class Meta:
        db_table = "usage_record"
        ordering = ["-record_id"]
        indexes = [
            models.Index(fields=["tenant_id", "-record_id"], name="usage_record_tenant"),
            BrinIndex(fields=["arrived_at"], name="usage_record_time"),
        ]

    def __str__(self) -> str:
        return f"usage record {self.record_id}"


class UsageHour(models.Model):
    """Sums of the records of one UTC hour; written in the transaction that stores them, so the two always agree."""

    id = models.BigAutoField(primary_key=True)
    hour = models.DateTimeField()
    tenant_id = models.UUIDField(null=True)
    user_id = models.UUIDField(null=True)
    key_id = models.UUIDField(null=True)
    version_id = models.UUIDField(null=True)
    public_model = models.CharField(max_length=200)
    request_count = models.BigIntegerField()
    unsuccessful_count = models.BigIntegerField()
    input_tokens = models.BigIntegerField()
    cached_input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    cost_usd = models.DecimalField(max_digits=30, decimal_places=12)

    class Meta:
        db_table = "usage_hour"
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "tenant_id", "user_id", "key_id", "version_id", "public_model"],
                name="usage_hour_is_unique",
                nulls_distinct=False,
            )
        ]
        indexes = [models.Index(fields=["tenant_id", "hour"], name="usage_hour_tenant")]

    def __str__(self) -> str:
        return f"usage of {self.public_model} at {self.hour:%Y-%m-%d %H}h"


class QuarantinedRecord(models.Model):
    """A record that cannot be a row of UsageRecord. Kept whole with the reason, so that nothing sent is lost."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    received_at = models.DateTimeField()
    node_id = models.UUIDField()
    reason = models.CharField(max_length=500)
    content_sha256 = models.CharField(max_length=64, unique=True)
    content = models.BinaryField()

    def __str__(self) -> str:
        return f"quarantined: {self.reason}"


class PriceEntry(models.Model):
    """A line of the price book, in picodollars (1e-12 USD) per token, in force until the version's next entry."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    version = models.ForeignKey(ModelVersion, on_delete=models.CASCADE, related_name="prices")
    effective_from = models.DateTimeField()
    input_pico_usd = models.PositiveBigIntegerField()
    cached_input_pico_usd = models.PositiveBigIntegerField()
    output_pico_usd = models.PositiveBigIntegerField()

    class Meta:
        ordering = ["version_id", "-effective_from"]
        constraints = [
            models.UniqueConstraint(fields=["version", "effective_from"], name="price_entry_is_unique"),
            models.CheckConstraint(
                condition=Q(cached_input_pico_usd__lte=F("input_pico_usd")), name="cached_input_costs_no_more"
            ),
        ]

    def __str__(self) -> str:
        return f"price of {self.version} from {self.effective_from:%Y-%m-%d}"
