from typing import Any

from rest_framework import serializers

from apps.deployments.models import MAX_REPLICAS
from apps.deployments.serializers import RequirementsField, StageSerializer


class PreviewRequestSerializer(serializers.Serializer[Any]):
    """The body that would make the deployment does, too."""

    name = serializers.CharField(required=False)
    version_id = serializers.UUIDField()
    replica_count = serializers.IntegerField(default=1, min_value=1, max_value=MAX_REPLICAS)
    max_running_requests = serializers.IntegerField(default=64, min_value=1, max_value=100_000)
    requirements = RequirementsField(required=False)


class AssignmentSerializer(serializers.Serializer[Any]):
    stages = StageSerializer(many=True)
    node_names = serializers.ListField(child=serializers.CharField())
    usd_per_h = serializers.FloatField()


class RefusalSerializer(serializers.Serializer[Any]):
    """`key` is the accelerator's, "" where it is of the whole node."""

    node_id = serializers.UUIDField()
    node_name = serializers.CharField()
    key = serializers.CharField()
    reason = serializers.CharField()


class RemedySerializer(serializers.Serializer[Any]):
    change = serializers.CharField()
    node_names = serializers.ListField(child=serializers.CharField())


class MemorySerializer(serializers.Serializer[Any]):
    """On each GPU, but for the whole model's weights and its cache per token.

    `estimated_bytes` is all but the cache as reckoned; `measured_bytes` what engines were seen to use of that, null
    until one has served. The total has the measured where there is one.
    """

    weights_total_bytes = serializers.IntegerField()
    kv_bytes_per_token = serializers.IntegerField()
    weights_bytes = serializers.IntegerField()
    kv_bytes = serializers.IntegerField()
    activation_bytes = serializers.IntegerField()
    state_bytes = serializers.IntegerField(help_text="Of recurrent layers, for all requests at once.")
    runtime_bytes = serializers.IntegerField()
    estimated_bytes = serializers.IntegerField()
    measured_bytes = serializers.IntegerField(allow_null=True)
    total_bytes = serializers.IntegerField()
    kv_tokens = serializers.IntegerField()


class SpeedFiguresSerializer(serializers.Serializer[Any]):
    batch = serializers.IntegerField()
    context_tokens = serializers.IntegerField()
    tpot_ms = serializers.FloatField()
    output_tokens_per_s = serializers.FloatField()
    prefill_tokens_per_s = serializers.FloatField()


class SpeedSerializer(serializers.Serializer[Any]):
    """On one GPU model of this fleet. `measured_bytes` is what engines were seen to use there, but for the cache."""

    gpu_model = serializers.CharField()
    total_bytes = serializers.IntegerField(source="need.memory.total_bytes")
    measured_bytes = serializers.IntegerField(source="need.memory.measured_bytes", allow_null=True)
    alone = SpeedFiguresSerializer()
    busy = SpeedFiguresSerializer()


class PreviewSerializer(serializers.Serializer[Any]):
    """`memory` is null where the version's config.json is not known.

    `kv_tokens_in_place` is what the first replica's cache would hold where it would be.
    """

    assignments = AssignmentSerializer(many=True)
    unplaced_count = serializers.IntegerField()
    cost_usd_per_h = serializers.FloatField()
    refusals = RefusalSerializer(many=True)
    remedies = RemedySerializer(many=True)
    memory = MemorySerializer(allow_null=True, source="need.memory", default=None)
    kv_tokens_in_place = serializers.IntegerField(allow_null=True)
    speeds = SpeedSerializer(many=True)


class MoveSerializer(serializers.Serializer[Any]):
    replica_id = serializers.UUIDField()
    deployment_id = serializers.UUIDField()
    before = StageSerializer(many=True)
    after = StageSerializer(many=True)
    fetch_bytes = serializers.IntegerField()


class RepackingSerializer(serializers.Serializer[Any]):
    moves = MoveSerializer(many=True)
    saved_usd_per_h = serializers.FloatField()
    used_before = serializers.IntegerField()
    used_after = serializers.IntegerField()
