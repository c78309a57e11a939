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
