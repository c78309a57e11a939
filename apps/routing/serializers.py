from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.routing.models import Route, RouteTarget
from apps.routing.policies import MAX_WEIGHT


class TargetSerializer(serializers.ModelSerializer[RouteTarget]):
    version = serializers.CharField(source="version.__str__")

    class Meta:
        model = RouteTarget
        fields = ["version_id", "version", "weight", "alternative_rank"]


class RouteSerializer(serializers.ModelSerializer[Route]):
    targets = TargetSerializer(many=True)

    class Meta:
        model = Route
        fields = ["id", "public_name", "targets", "created_at"]


class WeightSerializer(serializers.Serializer[Any]):
    version_id = serializers.UUIDField()
    weight = serializers.IntegerField(min_value=0, max_value=MAX_WEIGHT)


_TARGET = {
    "type": "object",
    "properties": {
        "version_id": {"type": "string", "format": "uuid"},
        "weight": {"type": "integer", "minimum": 0, "maximum": MAX_WEIGHT},
    },
    "required": ["version_id", "weight"],
    "additionalProperties": False,
}
_ONE_ABOVE_0 = {"type": "object", "properties": {"weight": {"minimum": 1}}, "required": ["weight"]}


@extend_schema_field({"type": "array", "items": _TARGET, "minItems": 1, "maxItems": 20, "contains": _ONE_ABOVE_0})
class TargetsField(serializers.ListField):
    """Of their weights one at least is above 0."""


class WeightsSerializer(serializers.Serializer[Any]):
    """`targets` are all of the route's targets afterwards.

    `alternatives` are ids of those that may answer what the chosen version cannot answer in time, in order of
    preference; where they are left out, those that there are stay.
    """

    targets = TargetsField(child=WeightSerializer(), min_length=1, max_length=20)
    alternatives = serializers.ListField(child=serializers.UUIDField(), required=False, max_length=20)


class NewRouteSerializer(WeightsSerializer):
    public_name = serializers.CharField(max_length=100)


class PublicModelSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    task = serializers.CharField()


class GatewayStatusSerializer(serializers.Serializer[Any]):
    node_id = serializers.UUIDField()
    node_name = serializers.CharField()
    node_state = serializers.CharField()
    active_generation = serializers.IntegerField(allow_null=True)
    is_active = serializers.BooleanField()
    error = serializers.CharField()


class SnapshotStatusSerializer(serializers.Serializer[Any]):
    generation = serializers.IntegerField(allow_null=True)
    compiled_at = serializers.DateTimeField(allow_null=True)
    active_count = serializers.IntegerField()
    gateway_count = serializers.IntegerField()
    gateways = GatewayStatusSerializer(many=True)
    summary = serializers.CharField(source="__str__")


class FleetNowSerializer(serializers.Serializer[Any]):
    """Null is unknown, never zero."""

    at = serializers.FloatField()
    nodes_reporting = serializers.IntegerField()
    nodes_stale = serializers.IntegerField()
    engines_ready = serializers.IntegerField(allow_null=True)
    engines_total = serializers.IntegerField(allow_null=True)
    requests_per_s = serializers.FloatField(allow_null=True)
    failures_per_s = serializers.FloatField(allow_null=True)
    input_tokens_per_s = serializers.FloatField(allow_null=True)
    output_tokens_per_s = serializers.FloatField(allow_null=True)
    running_requests = serializers.IntegerField(allow_null=True)
    queued_requests = serializers.IntegerField(allow_null=True)
    queued_by_class = serializers.DictField(child=serializers.IntegerField())
    kv_used_ratio = serializers.FloatField(allow_null=True)
    ttft_ms_p50 = serializers.FloatField(allow_null=True)
    ttft_ms_p95 = serializers.FloatField(allow_null=True)
    spool_pending_records = serializers.IntegerField(allow_null=True)


class OverviewSerializer(serializers.Serializer[Any]):
    fleet = FleetNowSerializer()
    snapshot = SnapshotStatusSerializer()
