from typing import Any

from rest_framework import serializers

from apps.usage.models import QuarantinedRecord
from apps.usage.selectors.health import SourceHealth

SHOWN_GAPS = 100


class SourceSerializer(serializers.Serializer[Any]):
    """`gaps` are pairs of the first and the last missing number; the first hundred."""

    gateway_id = serializers.CharField(source="source.gateway_id")
    boot_id = serializers.CharField(source="source.boot_id")
    node_id = serializers.UUIDField(source="source.node_id")
    last_received_at = serializers.DateTimeField(source="source.last_received_at")
    received_count = serializers.IntegerField()
    missing_count = serializers.IntegerField()
    gaps = serializers.SerializerMethodField()

    def get_gaps(self, health: SourceHealth) -> list[list[int]]:
        return [[first, end - 1] for first, end in health.gaps[:SHOWN_GAPS]]


class RecordHealthSerializer(serializers.Serializer[Any]):
    missing_count = serializers.IntegerField()
    quarantined_count = serializers.IntegerField()
    unpriced_count = serializers.IntegerField()
    mispriced_count = serializers.IntegerField()
    sources = SourceSerializer(many=True)


class QuarantinedRecordSerializer(serializers.ModelSerializer[QuarantinedRecord]):
    """`content` is what came, as text."""

    content = serializers.SerializerMethodField()

    class Meta:
        model = QuarantinedRecord
        fields = ["id", "received_at", "node_id", "reason", "content", "released_at"]

    def get_content(self, row: QuarantinedRecord) -> str:
        return bytes(row.content).decode("utf-8", "replace")
