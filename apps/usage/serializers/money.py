import re
from datetime import date
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.usage.models import AcceleratorPrice, Budget, BudgetAlert, Ownership
from apps.usage.policies.webhooks import shown_address
from apps.usage.selectors import accelerators, outcomes
from apps.usage.serializers.prices import BIGGEST_PRICE
from apps.usage.serializers.usage import UsageQuerySerializer, UsageRowSerializer, UsageTotalsSerializer, ZoneField

_MONTH = re.compile(r"(20\d\d|21\d\d)-(0[1-9]|1[0-2])")


def _usd(**more: Any) -> serializers.DecimalField:
    return serializers.DecimalField(max_digits=30, decimal_places=12, **more)


def _seconds() -> serializers.DecimalField:
    return serializers.DecimalField(max_digits=30, decimal_places=6)


class OutcomeQuerySerializer(UsageQuerySerializer):
    group_by = serializers.ChoiceField(choices=outcomes.GROUPS, default="version")


class WasteSerializer(serializers.Serializer[Any]):
    retries_usd = _usd()
    failures_usd = _usd()
    abandoned_usd = _usd()
    refused_usd = _usd()
    failed_count = serializers.IntegerField()
    abandoned_count = serializers.IntegerField()
    refused_count = serializers.IntegerField()


class OutcomeRowSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(allow_blank=True)
    name = serializers.CharField(allow_blank=True)
    task_count = serializers.IntegerField()
    success_count = serializers.IntegerField()
    task_cost_usd = _usd()
    failed_task_cost_usd = _usd()
    cost_per_success_usd = _usd(allow_null=True)
    value_usd = _usd(allow_null=True)
    cost_usd = _usd()
    request_count = serializers.IntegerField()
    waste = WasteSerializer()


class OutcomeReportSerializer(serializers.Serializer[Any]):
    rows = OutcomeRowSerializer(many=True)
    totals = OutcomeRowSerializer()


class CostQuerySerializer(UsageQuerySerializer):
    group_by = serializers.ChoiceField(choices=accelerators.GROUPS, default="tenant")


class CostRowSerializer(serializers.Serializer[Any]):
    id = serializers.CharField(allow_blank=True)
    name = serializers.CharField(allow_blank=True)
    used_s = _seconds()
    idle_s = _seconds()
    used_usd = _usd()
    idle_usd = _usd()
    cost_usd = _usd()
    billed_usd = _usd()
    margin_usd = _usd()


class NodeCostSerializer(serializers.Serializer[Any]):
    node_id = serializers.UUIDField()
    node = serializers.CharField()
    name = serializers.CharField()
    ownership = serializers.CharField(allow_blank=True)
    available_s = _seconds()
    cost_usd = _usd(allow_null=True)


class CostReportSerializer(serializers.Serializer[Any]):
    """The rows' used and idle time and `unborne_s` add up to `available_s`, their costs to `cost_usd`."""

    rows = CostRowSerializer(many=True)
    accelerators = NodeCostSerializer(many=True)
    available_s = _seconds()
    used_s = _seconds()
    idle_s = _seconds()
    unborne_s = _seconds()
    unborne_usd = _usd()
    used_usd = _usd()
    idle_usd = _usd()
    cost_usd = _usd()
    unpriced_s = _seconds()


class AcceleratorPriceSerializer(serializers.ModelSerializer[AcceleratorPrice]):
    class Meta:
        model = AcceleratorPrice
        fields = [
            "id", "accelerator_name", "node_id", "ownership", "hour_pico_usd", "effective_from", "created_at", "source",
        ]  # fmt: skip


class NewAcceleratorPriceSerializer(serializers.Serializer[Any]):
    """`hour_pico_usd`: 4500000000000 is 4.50 USD an hour. An empty name stands for every accelerator."""

    accelerator_name = serializers.CharField(max_length=200, allow_blank=True, default="")
    node_id = serializers.UUIDField(required=False, allow_null=True, default=None)
    ownership = serializers.ChoiceField(choices=Ownership.choices)
    hour_pico_usd = serializers.IntegerField(min_value=0, max_value=BIGGEST_PRICE)
    effective_from = serializers.DateTimeField(required=False)
    source = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")  # type: ignore[assignment] # a field may have any name


class BudgetSerializer(serializers.ModelSerializer[Budget]):
    """Of `webhook_url` only the host: all of a tenant's members may look."""

    tenant = serializers.CharField(source="tenant.name", allow_null=True, default=None)
    webhook_url = serializers.SerializerMethodField()

    class Meta:
        model = Budget
        fields = [
            "id", "name", "tenant_id", "tenant", "public_model", "amount_usd", "zone", "thresholds_percent", "mail_to",
            "webhook_url", "created_at",
        ]  # fmt: skip

    def get_webhook_url(self, budget: Budget) -> str:
        return shown_address(budget.webhook_url)


@extend_schema_field({"type": "string", "pattern": r"^(?!0+(\.0+)?$)\d{1,18}(\.\d{1,2})?$"})
class AmountField(serializers.DecimalField):
    """More than nothing."""


class NewBudgetSerializer(serializers.Serializer[Any]):
    """Without a tenant it is of everybody together. Thresholds are in per cent of the amount."""

    name = serializers.CharField(max_length=100)
    tenant_id = serializers.UUIDField(required=False, allow_null=True, default=None)
    amount_usd = AmountField(max_digits=20, decimal_places=2, min_value=Decimal("0.01"))
    public_model = serializers.CharField(max_length=200, required=False, allow_blank=True, default="")
    zone = serializers.CharField(max_length=64, required=False, default="UTC")
    thresholds_percent = serializers.ListField(child=serializers.IntegerField(), required=False, max_length=50)
    mail_to = serializers.ListField(child=serializers.CharField(max_length=254), required=False, max_length=50)
    webhook_url = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")


class ShownOnceBudgetSerializer(BudgetSerializer):
    """`webhook_key` is in the answer to the creation and nowhere else."""

    webhook_key = serializers.CharField()

    class Meta(BudgetSerializer.Meta):
        fields = [*BudgetSerializer.Meta.fields, "webhook_key"]


class BudgetAlertSerializer(serializers.ModelSerializer[BudgetAlert]):
    class Meta:
        model = BudgetAlert
        fields = [
            "id", "month", "threshold_percent", "is_forecast", "channel", "spent_usd", "forecast_usd", "raised_at",
            "withdrawn_at", "attempts", "next_try_at", "delivered_at", "error",
        ]  # fmt: skip


class BudgetStatusSerializer(serializers.Serializer[Any]):
    budget = BudgetSerializer()
    month = serializers.DateField(source="month.first_day")
    spent_usd = _usd()
    forecast_usd = _usd()
    alerts = BudgetAlertSerializer(many=True)


class StatementQuerySerializer(serializers.Serializer[Any]):
    """`month` is like 2026-11, in `zone`."""

    tenant = serializers.UUIDField()
    month = serializers.RegexField(_MONTH)
    zone = ZoneField(required=False, default=ZoneInfo("UTC"))

    def validate_month(self, value: str) -> date:
        if not _MONTH.fullmatch(value):
            raise serializers.ValidationError("is not a month, such as 2026-11")
        return date.fromisoformat(f"{value}-01")


class LatecomersSerializer(serializers.Serializer[Any]):
    """What came after the seven days in which late records are awaited; it is in the amount."""

    request_count = serializers.IntegerField()
    cost_usd = _usd()


class StatementSerializer(serializers.Serializer[Any]):
    tenant_id = serializers.UUIDField(source="tenant.pk")
    tenant = serializers.CharField(source="tenant.name")
    start = serializers.DateTimeField(source="month.start")
    end = serializers.DateTimeField(source="month.end")
    zone = serializers.CharField(source="zone.key")
    made_at = serializers.DateTimeField()
    is_final = serializers.BooleanField()
    open_reasons = serializers.ListField(child=serializers.CharField(), help_text="why it is not final")
    amount_usd = serializers.DecimalField(max_digits=30, decimal_places=2)
    discount_usd = _usd()
    reratings = serializers.ListField(child=serializers.IntegerField(), help_text="applied to some of it")
    reratings_under_way = serializers.ListField(child=serializers.IntegerField())
    latecomers = LatecomersSerializer()
    totals = UsageTotalsSerializer()
    by_version = UsageRowSerializer(many=True)
    by_day = UsageRowSerializer(many=True)
