from decimal import Decimal
from typing import Any

from rest_framework import serializers

from apps.limits.models import Block, Kind, Limit, LimitEvent, LimitSettings, RaiseRequest, Scope
from apps.limits.policies import amount_of
from apps.limits.selectors.use import LimitUse

BIGGEST_INTEGER = 2**31 - 1


class AmountField(serializers.DecimalField):
    """Requests and tokens are whole numbers; money is in US dollars, down to a billionth."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_digits=25, decimal_places=9, min_value=Decimal(0), **options)


class LimitFieldsSerializer(serializers.Serializer[Any]):
    amount = AmountField()
    burst = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=2**53 - 1)
    soft_percent = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=100)


class NewLimitSerializer(LimitFieldsSerializer):
    scope = serializers.ChoiceField(choices=Scope.choices, default="tenant")
    subject = serializers.CharField(required=False, allow_blank=True, max_length=256, default="")
    model = serializers.CharField(required=False, allow_blank=True, max_length=200, default="", source="public_model")
    kind = serializers.ChoiceField(choices=Kind.choices)


class LimitSerializer(serializers.ModelSerializer[Limit]):
    model = serializers.CharField(source="public_model")
    amount = serializers.SerializerMethodField()
    raised_amount = serializers.SerializerMethodField()

    class Meta:
        model = Limit
        fields = [
            "id",
            "tenant_id",
            "setter",
            "scope",
            "subject",
            "model",
            "kind",
            "amount",
            "burst",
            "soft_percent",
            "raised_amount",
            "raised_until",
            "reset_at",
            "revision",
            "changed_at",
        ]

    def get_amount(self, limit: Limit) -> str:
        return f"{amount_of(limit.kind, limit.amount):f}"

    def get_raised_amount(self, limit: Limit) -> str | None:
        raised = limit.raised_amount
        return None if raised is None else f"{amount_of(limit.kind, raised):f}"


class LimitUseSerializer(serializers.Serializer[Any]):
    """`used` null: unknown now, or each has their own."""

    limit = LimitSerializer()
    used = serializers.SerializerMethodField()
    ends_at = serializers.DateTimeField(allow_null=True)

    def get_used(self, use: LimitUse) -> str | None:
        return None if use.used is None else f"{amount_of(use.limit.kind, use.used):f}"


class LimitUsesSerializer(serializers.Serializer[Any]):
    """All of them: a tenant has few."""

    results = LimitUseSerializer(many=True)


class RaisedAmountSerializer(serializers.Serializer[Any]):
    amount = AmountField()
    until = serializers.DateTimeField()


class BlockSerializer(serializers.ModelSerializer[Block]):
    class Meta:
        model = Block
        fields = ["id", "tenant_id", "setter", "scope", "subject", "reason", "until", "created_at"]


class NewBlockSerializer(serializers.Serializer[Any]):
    scope = serializers.ChoiceField(choices=Scope.choices)
    subject = serializers.CharField(required=False, allow_blank=True, max_length=256, default="")
    reason = serializers.CharField(required=False, allow_blank=True, max_length=200, default="")
    until = serializers.DateTimeField(required=False, allow_null=True, default=None)


class LimitSettingsSerializer(serializers.ModelSerializer[LimitSettings]):
    class Meta:
        model = LimitSettings
        fields = ["tenant_id", "time_zone", "degraded"]


class NewLimitSettingsSerializer(serializers.Serializer[Any]):
    time_zone = serializers.CharField(max_length=64)
    degraded = serializers.ChoiceField(choices=["share", "refuse"], default="share")


class RaiseRequestSerializer(serializers.ModelSerializer[RaiseRequest]):
    amount = serializers.SerializerMethodField()
    asked_by = serializers.StringRelatedField[Any]()
    decided_by = serializers.StringRelatedField[Any]()

    class Meta:
        model = RaiseRequest
        fields = [
            "id",
            "tenant_id",
            "limit_id",
            "amount",
            "until",
            "reason",
            "state",
            "asked_by",
            "asked_at",
            "answer",
            "decided_by",
            "decided_at",
        ]

    def get_amount(self, request: RaiseRequest) -> str:
        return f"{amount_of(request.limit.kind, request.amount):f}"


class NewRaiseRequestSerializer(serializers.Serializer[Any]):
    limit_id = serializers.UUIDField()
    amount = AmountField()
    until = serializers.DateTimeField(required=False, allow_null=True, default=None)
    reason = serializers.CharField(max_length=500)


class DecisionSerializer(serializers.Serializer[Any]):
    is_approved = serializers.BooleanField()
    answer = serializers.CharField(required=False, allow_blank=True, max_length=500, default="")


class LimitEventSerializer(serializers.ModelSerializer[LimitEvent]):
    class Meta:
        model = LimitEvent
        fields = ["id", "at", "what", "limit_id", "subject", "used", "amount"]
