from typing import Any

from django.db import models
from django.db.models import F, Q
from django.db.models.lookups import GreaterThan

from apps.common.ids import new_id
from apps.usage.policies.checking import LATE
from workers.contracts.pricing import WHOLE_E8

_SEARCHED = {
    "workflow_id": "usage_record_workflow",
    "end_user": "usage_record_end_user",
    "error_code": "usage_record_error",
}


IS_LATECOMER = Q(GreaterThan(F("received_at") - F("arrived_at"), LATE))


def _when_named(column: str, name: str) -> models.Index:
    """Only of the records that name one."""
    return models.Index(fields=[column, "arrived_at"], name=name, condition=~Q(**{column: ""}))


class UsageRecord(models.Model):
    """One request, exactly once: the fields of contracts.UsageRecord, and what the price book made of them.

    Partitioned by day of `arrived_at`. Ids are plain values, not foreign keys: what was used outlives what it was used
    with. None stands for a part of the path that the request never reached.

    `cost_usd` is by the price book at `arrived_at`, `list_usd` the same before discounts, `gateway_cost_usd` what the
    gateway counted at the time. An unpriced record costs nothing yet: no price was in force, and it is priced once
    there is one. `wasted_usd` is what its wasted tokens would have cost; nobody pays it. `price_line_id` is the line of
    the price book that priced it, None where none did, and `charged_e8` the share of the list price, in units of 1e-8.
    `rerating` is the number of the re-rating that priced it last, 0 for the book when it came.
    """

    pk = models.CompositePrimaryKey("record_id", "arrived_at")
    record_id = models.UUIDField()
    arrived_at = models.DateTimeField()
    received_at = models.DateTimeField(null=True)
    gateway_id = models.CharField(max_length=64)
    boot_id = models.CharField(max_length=64)
    sequence = models.BigIntegerField()
    request_id = models.CharField(max_length=128)
    tenant_id = models.UUIDField(null=True)
    key_id = models.UUIDField(null=True)
    user_id = models.UUIDField(null=True)
    end_user = models.CharField(max_length=256)
    workflow_id = models.CharField(max_length=128, db_default="")
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
    wasted_tokens = models.BigIntegerField(db_default=0)
    queue_ms = models.FloatField(null=True)
    ttft_ms = models.FloatField(null=True)
    total_ms = models.FloatField()
    engine_ms = models.FloatField(null=True)
    cost_usd = models.DecimalField(max_digits=24, decimal_places=12)
    list_usd = models.DecimalField(max_digits=24, decimal_places=12, db_default=0)
    gateway_cost_usd = models.DecimalField(max_digits=24, decimal_places=12, db_default=0)
    wasted_usd = models.DecimalField(max_digits=24, decimal_places=12, db_default=0)
    is_unpriced = models.BooleanField(db_default=False)
    is_cost_mismatch = models.BooleanField()
    price_line_id = models.UUIDField(null=True)
    charged_e8 = models.IntegerField(db_default=WHOLE_E8)
    rerating = models.IntegerField(db_default=0)
    attempts = models.SmallIntegerField()
    error_code = models.CharField(max_length=100)
    tags = models.JSONField()

    class Meta:
        db_table = "usage_record"
        ordering = ["-record_id"]
        indexes = [
            models.Index(fields=["tenant_id", "arrived_at", "record_id"], name="usage_record_tenant"),
            models.Index(fields=["arrived_at", "record_id"], name="usage_record_time"),
            models.Index(fields=["request_id"], name="usage_record_request"),
            *(_when_named(column, name) for column, name in _SEARCHED.items()),
            models.Index(fields=["arrived_at"], name="usage_record_unpriced", condition=Q(is_unpriced=True)),
            models.Index(fields=["arrived_at"], name="usage_record_mispriced", condition=Q(is_cost_mismatch=True)),
            models.Index(fields=["arrived_at"], name="usage_record_latecomer", condition=IS_LATECOMER),
        ]

    def __str__(self) -> str:
        return f"usage record {self.record_id}"


class SequenceRangesField(models.Field):  # type: ignore[type-arg] # not subscriptable at run time
    """Postgres's int8multirange: every number of a source that has come, as few ranges."""

    def db_type(self, connection: Any) -> str:  # noqa: ARG002 - Django's signature
        return "int8multirange"


class UsageSource(models.Model):
    """One start of one gateway, which numbers its records 1, 2, 3, …: a number that is missing is a lost record."""

    id = models.BigAutoField(primary_key=True)
    gateway_id = models.CharField(max_length=64)
    boot_id = models.CharField(max_length=64)
    node_id = models.UUIDField()
    received = SequenceRangesField()
    first_received_at = models.DateTimeField()
    last_received_at = models.DateTimeField()

    class Meta:
        db_table = "usage_source"
        constraints = [models.UniqueConstraint(fields=["gateway_id", "boot_id"], name="usage_source_is_unique")]

    def __str__(self) -> str:
        return f"{self.gateway_id} since {self.boot_id}"


class QuarantinedRecord(models.Model):
    """What came as a record and cannot be a row of UsageRecord. Kept whole with the reason, so that nothing is lost."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    received_at = models.DateTimeField()
    node_id = models.UUIDField()
    reason = models.CharField(max_length=500)
    content_sha256 = models.CharField(max_length=64, unique=True)
    content = models.BinaryField()
    released_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"quarantined: {self.reason}"
