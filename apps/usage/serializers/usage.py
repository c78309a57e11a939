from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.usage.models import UsageRecord
from apps.usage.selectors.reports import GROUPS

DEFAULT_DAYS = 30
RECORD_FIELDS = (
    "record_id", "arrived_at", "received_at", "request_id", "gateway_id", "boot_id", "sequence", "tenant_id", "user_id",
    "key_id", "end_user", "workflow_id", "path", "public_model", "version_id", "deployment_id", "replica_id", "node_id",
    "service_class", "is_stream", "status", "outcome", "error_code", "usage_source", "input_tokens",
    "cached_input_tokens", "output_tokens", "reasoning_tokens", "wasted_tokens", "queue_ms", "ttft_ms", "total_ms",
    "engine_ms", "cost_usd", "list_usd", "gateway_cost_usd", "wasted_usd", "price_line_id", "charged_e8", "is_unpriced",
    "is_cost_mismatch", "rerating", "attempts", "tags",
)  # fmt: skip


@extend_schema_field(OpenApiTypes.STR)
class ZoneField(serializers.Field[ZoneInfo, str, str, Any]):
    """An IANA time zone."""

    def to_internal_value(self, data: str) -> ZoneInfo:
        try:
            return ZoneInfo(data)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise serializers.ValidationError("is not an IANA time zone, such as Europe/Berlin") from error

    def to_representation(self, value: ZoneInfo) -> str:
        return str(value)


_DAY = r"2\d{3}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])"


@extend_schema_field({"type": "string", "pattern": rf"^{_DAY}(T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ)?$"})
class MomentField(serializers.CharField):
    """A day or a time, as ISO 8601 writes them."""


@extend_schema_field({"type": "string", "pattern": f"^({'|'.join(GROUPS)})(,({'|'.join(GROUPS)}))*$"})
class GroupsField(serializers.CharField):
    """Several, with commas."""


class UsageQuerySerializer(serializers.Serializer[Any]):
    """`start` and `end` without an offset are in `zone`; the default is the last 30 days with today."""

    tenant = serializers.UUIDField(required=False, default=None)
    user = serializers.UUIDField(required=False, default=None)
    key = serializers.UUIDField(required=False, default=None)
    version = serializers.UUIDField(required=False, default=None)
    model = serializers.CharField(required=False, default="", max_length=200)
    end_user = serializers.CharField(required=False, default="", max_length=256)
    workflow = serializers.CharField(required=False, default="", max_length=128)
    outcome = serializers.CharField(required=False, default="", max_length=20)
    zone = ZoneField(required=False, default=ZoneInfo("UTC"))
    start = MomentField(required=False, max_length=40)
    end = MomentField(required=False, max_length=40)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        for name in ("start", "end"):
            if name in attrs:
                attrs[name] = _moment(name, attrs[name], attrs["zone"])
        return attrs


class ReportQuerySerializer(UsageQuerySerializer):
    group_by = GroupsField(required=False, default="day,model", max_length=100)

    def validate_group_by(self, value: str) -> list[str]:
        groups = [part.strip() for part in value.split(",") if part.strip()]
        if not groups or set(groups) - set(GROUPS):
            raise serializers.ValidationError(f"takes some of {', '.join(GROUPS)}, separated by commas")
        return groups


def _moment(name: str, text: str, zone: ZoneInfo) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        moment.astimezone(ZoneInfo("UTC")) - timedelta(days=1)
    except (ValueError, OverflowError) as error:
        raise serializers.ValidationError({name: "is not a date or time, such as 2026-11-29T12:00:00Z"}) from error
    return moment


def default_range(now: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    tomorrow = (now.astimezone(zone) + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return tomorrow - timedelta(days=DEFAULT_DAYS), tomorrow


class UsageRecordSerializer(serializers.ModelSerializer[UsageRecord]):
    class Meta:
        model = UsageRecord
        fields = RECORD_FIELDS


@extend_schema_field(OpenApiTypes.DATETIME)
class HourField(serializers.Field[datetime, str, str, Any]):
    """As CSV has it: with the offset of the zone that was asked for, which tells two hours of a repeated one apart."""

    def to_representation(self, value: datetime) -> str:
        return value.isoformat()


class UsageTotalsSerializer(serializers.Serializer[Any]):
    request_count = serializers.IntegerField()
    unsuccessful_count = serializers.IntegerField()
    unpriced_count = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    cached_input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    reasoning_tokens = serializers.IntegerField()
    wasted_tokens = serializers.IntegerField()
    list_usd = serializers.DecimalField(max_digits=30, decimal_places=12)
    cost_usd = serializers.DecimalField(max_digits=30, decimal_places=12)
    wasted_usd = serializers.DecimalField(max_digits=30, decimal_places=12)


class UsageRowSerializer(UsageTotalsSerializer):
    day = serializers.DateField(allow_null=True)
    hour = HourField(allow_null=True, help_text="begins at, with the zone's offset")
    month = serializers.DateField(allow_null=True)
    ids = serializers.DictField(child=serializers.CharField(allow_blank=True))
    names = serializers.DictField(child=serializers.CharField(allow_blank=True))


class UsageReportSerializer(serializers.Serializer[Any]):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    zone = serializers.CharField()
    group_by = serializers.ListField(child=serializers.CharField())
    reratings_under_way = serializers.ListField(
        child=serializers.IntegerField(), help_text="numbers of those being applied: the sums are partly by old prices"
    )
    rows = UsageRowSerializer(many=True)
    totals = UsageTotalsSerializer()
