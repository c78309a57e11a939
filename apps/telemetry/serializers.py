from typing import Any

from rest_framework import serializers

from apps.telemetry.policies import MAX_KEPT_DAYS


class DecisionStepSerializer(serializers.Serializer[Any]):
    what = serializers.CharField()
    at = serializers.FloatField(help_text="Unix seconds")
    detail = serializers.CharField(
        help_text="the endpoint of what was sent or failed, the code of what was refused or rejected"
    )


class EndpointScoreSerializer(serializers.Serializer[Any]):
    endpoint_id = serializers.CharField()
    score_s = serializers.FloatField(
        allow_null=True, help_text="predicted seconds, the least wins; null when it was out"
    )
    prefill_s = serializers.FloatField()
    hit_tokens = serializers.IntegerField()
    reason = serializers.CharField(help_text="why it was out")


class ChoiceSerializer(serializers.Serializer[Any]):
    at = serializers.FloatField()
    outcome = serializers.CharField()
    endpoint_id = serializers.CharField()
    start_by = serializers.FloatField(allow_null=True)
    cost_s = serializers.FloatField()
    density = serializers.FloatField(allow_null=True)
    bid_price = serializers.FloatField(allow_null=True)
    waited_as = serializers.CharField()
    reason = serializers.CharField()
    considered = EndpointScoreSerializer(many=True)


class RequestDecisionSerializer(serializers.Serializer[Any]):
    """Why a request was scheduled as it was; fields as in workers/contracts/decisions.py."""

    request_id = serializers.CharField()
    tenant_id = serializers.UUIDField()
    service_class = serializers.CharField()
    version_id = serializers.CharField()
    arrived_at = serializers.FloatField()
    is_over = serializers.BooleanField()
    rank = serializers.IntegerField()
    fairness_account = serializers.CharField()
    tenant_weight = serializers.FloatField()
    weight = serializers.FloatField(allow_null=True)
    prompt_tokens = serializers.IntegerField()
    predicted_output_tokens = serializers.FloatField()
    prefix_blocks = serializers.IntegerField()
    told_blocks = serializers.IntegerField(
        allow_null=True, help_text="of those, known by engines' KV events; null: no engine of it is followed"
    )
    ttft_slo_s = serializers.FloatField(allow_null=True)
    tpot_slo_s = serializers.FloatField(allow_null=True)
    deadline_at = serializers.FloatField(allow_null=True)
    workflow_id = serializers.CharField()
    steps = DecisionStepSerializer(many=True)
    choices = ChoiceSerializer(many=True)


class PromptChoiceSerializer(serializers.Serializer[Any]):
    is_kept = serializers.BooleanField()
    days = serializers.IntegerField(allow_null=True)
    since = serializers.DateTimeField(allow_null=True)


class KeepPromptsSerializer(serializers.Serializer[Any]):
    days = serializers.IntegerField(min_value=1, max_value=MAX_KEPT_DAYS)


class PromptSerializer(serializers.Serializer[Any]):
    record_id = serializers.UUIDField()
    arrived_at = serializers.DateTimeField()
    body = serializers.CharField()


class LiveAcceleratorSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    kind = serializers.CharField()
    name = serializers.CharField()
    memory_total_bytes = serializers.IntegerField(allow_null=True)
    memory_used_bytes = serializers.IntegerField(allow_null=True)
    utilisation_ratio = serializers.FloatField(allow_null=True)
    temperature_c = serializers.FloatField(allow_null=True)
    power_w = serializers.FloatField(allow_null=True)


class LiveReplicaSerializer(serializers.Serializer[Any]):
    replica_id = serializers.CharField()
    state = serializers.CharField()
    restarts = serializers.IntegerField()
    running_requests = serializers.IntegerField(allow_null=True)
    waiting_requests = serializers.IntegerField(allow_null=True)
    kv_used_ratio = serializers.FloatField(allow_null=True)
    memory_bytes = serializers.IntegerField(allow_null=True)


class LiveNodeSerializer(serializers.Serializer[Any]):
    node_id = serializers.CharField()
    node_name = serializers.CharField()
    age_s = serializers.FloatField(help_text="since it was said")
    running_requests = serializers.IntegerField(allow_null=True)
    queued_requests = serializers.IntegerField(allow_null=True)
    requests_per_s = serializers.FloatField(allow_null=True)
    output_tokens_per_s = serializers.FloatField(allow_null=True)
    accelerators = LiveAcceleratorSerializer(many=True)
    replicas = LiveReplicaSerializer(many=True)


class LiveNodesSerializer(serializers.Serializer[Any]):
    results = LiveNodeSerializer(many=True)


class ReplicaLogSerializer(serializers.Serializer[Any]):
    """`source` is live, event (its last failure) or none."""

    replica_id = serializers.UUIDField()
    source = serializers.ChoiceField(choices=["live", "event", "none"])  # type: ignore[assignment]  # off the class
    lines = serializers.ListField(child=serializers.CharField(allow_blank=True))
