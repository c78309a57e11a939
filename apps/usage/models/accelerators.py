from django.db import models
from django.db.models import Q

from apps.common.ids import new_id


class Ownership(models.TextChoices):
    """Owned and reserved ones cost from the moment they are there, spot ones only while their node is online."""

    OWNED = "owned", "Owned"
    RESERVED = "reserved", "Reserved"
    SPOT = "spot", "Spot"


class AcceleratorPrice(models.Model):
    """What an hour of an accelerator costs us, from a date on.

    `accelerator_name` is matched as a part of the name that the node reports, ignoring case; the longest that matches
    counts, "" matches every one. A line with a `node_id` goes before those without; of two from the same moment the
    one made later holds.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    accelerator_name = models.CharField(max_length=200, blank=True)
    node_id = models.UUIDField(null=True, blank=True)
    ownership = models.CharField(max_length=20, choices=Ownership.choices)
    hour_pico_usd = models.PositiveBigIntegerField()
    effective_from = models.DateTimeField()
    created_at = models.DateTimeField()
    source = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["accelerator_name", "-effective_from", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["accelerator_name", "node_id", "effective_from", "created_at"],
                name="accelerator_price_is_unique",
                nulls_distinct=False,
            ),
            models.CheckConstraint(condition=Q(ownership__in=Ownership.values), name="ownership_is_known"),
        ]

    def __str__(self) -> str:
        return f"price of {self.accelerator_name or 'every accelerator'} from {self.effective_from:%Y-%m-%d}"


class AcceleratorSlot(models.Model):
    """How long an accelerator was there in one quarter of an hour, and until when that is known."""

    id = models.BigAutoField(primary_key=True)
    slot = models.DateTimeField()
    accelerator_id = models.UUIDField()
    node_id = models.UUIDField()
    name = models.CharField(max_length=200)
    available_us = models.BigIntegerField()

    class Meta:
        db_table = "accelerator_slot"
        constraints = [models.UniqueConstraint(fields=["accelerator_id", "slot"], name="accelerator_slot_is_unique")]
        indexes = [models.Index(fields=["slot", "node_id"], name="accelerator_slot_time")]

    def __str__(self) -> str:
        return f"{self.name} at {self.slot:%Y-%m-%d %H:%M}"


class AcceleratorClock(models.Model):
    """Until when an accelerator's time is counted."""

    accelerator_id = models.UUIDField(primary_key=True)
    counted_until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.accelerator_id} until {self.counted_until:%Y-%m-%d %H:%M}"


class EngineShare(models.Model):
    """The engine time of one node's quarter of an hour that belongs to a tenant and version (policies/sharing.py)."""

    id = models.BigAutoField(primary_key=True)
    slot = models.DateTimeField()
    node_id = models.UUIDField()
    tenant_id = models.UUIDField(null=True)
    version_id = models.UUIDField(null=True)
    public_model = models.CharField(max_length=200)
    busy_us = models.BigIntegerField()

    class Meta:
        db_table = "engine_share"
        constraints = [
            models.UniqueConstraint(
                fields=["slot", "node_id", "tenant_id", "version_id", "public_model"],
                name="engine_share_is_unique",
                nulls_distinct=False,
            )
        ]

    def __str__(self) -> str:
        return f"engine time on {self.node_id} at {self.slot:%Y-%m-%d %H:%M}"


class SharedSlot(models.Model):
    """That the engine time of a slot is shared out, among so many records: a late one makes it shared out anew."""

    slot = models.DateTimeField(primary_key=True)
    record_count = models.BigIntegerField()

    def __str__(self) -> str:
        return f"engine time shared out at {self.slot:%Y-%m-%d %H:%M}"
