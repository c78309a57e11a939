from datetime import timedelta
from typing import ClassVar

from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from apps.usage.policies.slots import DAY, SLOT
from workers.contracts.pricing import WHOLE_E8


class UsageSums(models.Model):
    """Sums of the records of one UTC quarter of an hour (`slot`), which every time zone's days consist of.

    Written in the statement that stores or re-rates the records, so that the two always agree. The database has no
    index on `id`: nothing asks for a sum by it, and records open many rows.
    """

    dimensions: ClassVar[tuple[str, ...]]
    grain: ClassVar[timedelta] = SLOT

    id = models.BigAutoField(primary_key=True)
    slot = models.DateTimeField()
    tenant_id = models.UUIDField(null=True)
    outcome = models.CharField(max_length=20)
    request_count = models.BigIntegerField()
    input_tokens = models.BigIntegerField()
    cached_input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    reasoning_tokens = models.BigIntegerField()
    wasted_tokens = models.BigIntegerField()
    unpriced_count = models.BigIntegerField()
    list_usd = models.DecimalField(max_digits=30, decimal_places=12, db_default=0)
    cost_usd = models.DecimalField(max_digits=30, decimal_places=12)
    wasted_usd = models.DecimalField(max_digits=30, decimal_places=12)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.request_count} requests at {self.slot:%Y-%m-%d %H:%M}"


def _unique(name: str, dimensions: tuple[str, ...]) -> list[models.BaseConstraint]:
    return [models.UniqueConstraint(fields=dimensions, name=f"{name}_is_unique", nulls_distinct=False)]


def _by_time(name: str) -> list[models.Index]:
    """For all tenants; one tenant's are found by the unique key. Rows come in order of time, so BRIN will do."""
    return [BrinIndex(fields=["slot"], name=f"{name}_time", autosummarize=True, pages_per_range=16)]


WHO_AND_WHAT = ("tenant_id", "slot", "user_id", "key_id", "version_id", "public_model", "outcome")
TOTAL = ("slot", "version_id", "public_model", "outcome")
WHAT = ("tenant_id", "slot", "version_id", "public_model", "outcome")
BY_PRICE = (*WHO_AND_WHAT, "price_line_id", "charged_e8")
END_USER = ("tenant_id", "slot", "end_user", "outcome")
WORKFLOW = ("tenant_id", "slot", "workflow_id", "outcome")
WORKFLOW_TOTAL = ("slot", "workflow_id", "outcome")


class UsageSlot(UsageSums):
    """Who asked with which key for what."""

    dimensions = WHO_AND_WHAT

    user_id = models.UUIDField(null=True)
    key_id = models.UUIDField(null=True)
    version_id = models.UUIDField(null=True)
    public_model = models.CharField(max_length=200)

    class Meta:
        db_table = "usage_slot"
        constraints = _unique("usage_slot", WHO_AND_WHAT)
        indexes = _by_time("usage_slot")


class UsageByModel(UsageSums):
    """Fewer rows than UsageSlot for the pages that name neither a user nor a key."""

    dimensions = WHAT

    version_id = models.UUIDField(null=True)
    public_model = models.CharField(max_length=200)

    class Meta:
        db_table = "usage_by_model"
        constraints = _unique("usage_by_model", WHAT)
        indexes = _by_time("usage_by_model")


class UsageByEndUser(UsageSums):
    """Whom requests name as their end user, or nobody; apart, because there may be very many."""

    dimensions = END_USER

    end_user = models.CharField(max_length=256)

    class Meta:
        db_table = "usage_by_end_user"
        constraints = _unique("usage_by_end_user", END_USER)
        indexes = _by_time("usage_by_end_user")


class UsageEndUserDay(UsageSums):
    """UsageByEndUser by UTC day: a month of very many end users is ranked at a glance."""

    dimensions = END_USER
    grain = DAY

    end_user = models.CharField(max_length=256)

    class Meta:
        db_table = "usage_end_user_day"
        constraints = _unique("usage_end_user_day", END_USER)
        indexes = _by_time("usage_end_user_day")


class UsageByWorkflow(UsageSums):
    """Which workflow requests belong to, or none."""

    dimensions = WORKFLOW

    workflow_id = models.CharField(max_length=128)

    class Meta:
        db_table = "usage_by_workflow"
        constraints = _unique("usage_by_workflow", WORKFLOW)
        indexes = _by_time("usage_by_workflow")


class UsageWorkflowTotal(UsageSums):
    """Workflows by UTC day, of all tenants together: many may use one name.

    `tenant_id` is never set, so that row-level security shows the rows to those who see every tenant.
    """

    dimensions = WORKFLOW_TOTAL
    grain = DAY

    workflow_id = models.CharField(max_length=128)

    class Meta:
        db_table = "usage_workflow_total"
        constraints = _unique("usage_workflow_total", WORKFLOW_TOTAL)


class UsageTotal(UsageSums):
    """Of all tenants together, for the charts of those who see every tenant."""

    dimensions = TOTAL

    tenant_id = None  # takes the field of the base away
    version_id = models.UUIDField(null=True)
    public_model = models.CharField(max_length=200)

    class Meta:
        db_table = "usage_total"
        constraints = _unique("usage_total", TOTAL)


class UsageDay(UsageSums):
    """UsageSlot by UTC day, in few enough rows for a month of many keys at a glance, and by price.

    A re-rating moves records from one price to another, so a row may have come to nothing.
    """

    dimensions = BY_PRICE
    grain = DAY

    user_id = models.UUIDField(null=True)
    key_id = models.UUIDField(null=True)
    version_id = models.UUIDField(null=True)
    public_model = models.CharField(max_length=200)
    price_line_id = models.UUIDField(null=True)
    charged_e8 = models.IntegerField(db_default=WHOLE_E8)

    class Meta:
        db_table = "usage_day"
        constraints = _unique("usage_day", BY_PRICE)
        indexes = _by_time("usage_day")
