from typing import Any

from rest_framework import serializers

from apps.usage.models import PriceEntry, Rerating, TenantDiscount
from workers.contracts.pricing import BASIS_POINTS

BIGGEST_PRICE = 10**15


class PriceSerializer(serializers.ModelSerializer[PriceEntry]):
    version = serializers.StringRelatedField[Any](allow_null=True)
    model = serializers.CharField(source="model.name", allow_null=True, default=None)

    class Meta:
        model = PriceEntry
        fields = [
            "id", "version_id", "version", "model_id", "model", "effective_from", "input_pico_usd",
            "cached_input_pico_usd", "output_pico_usd", "request_pico_usd", "batch_discount_bp", "created_at",
        ]  # fmt: skip


def _pico(**more: Any) -> serializers.IntegerField:
    return serializers.IntegerField(min_value=0, max_value=BIGGEST_PRICE, **more)


class NewPriceSerializer(serializers.Serializer[Any]):
    """In picodollars (1e-12 USD) per token and per request: 150000 a token is 0.15 USD per million tokens.

    For a version or for a whole model. `batch_discount_bp` is in basis points (5000: half).
    """

    version_id = serializers.UUIDField(required=False, allow_null=True, default=None)
    model_id = serializers.UUIDField(required=False, allow_null=True, default=None)
    effective_from = serializers.DateTimeField(required=False)
    input_pico_usd = _pico()
    cached_input_pico_usd = _pico()
    output_pico_usd = _pico()
    request_pico_usd = _pico(required=False, default=0)
    batch_discount_bp = serializers.IntegerField(min_value=0, max_value=BASIS_POINTS, required=False, default=0)


class DiscountSerializer(serializers.ModelSerializer[TenantDiscount]):
    tenant = serializers.CharField(source="tenant.name")
    model = serializers.CharField(source="model.name", allow_null=True, default=None)

    class Meta:
        model = TenantDiscount
        fields = ["id", "tenant_id", "tenant", "model_id", "model", "discount_bp", "effective_from", "created_at"]


class NewDiscountSerializer(serializers.Serializer[Any]):
    """In basis points (1000: ten per cent), for one model or for all; 0 ends a discount."""

    tenant_id = serializers.UUIDField()
    model_id = serializers.UUIDField(required=False, allow_null=True, default=None)
    discount_bp = serializers.IntegerField(min_value=0, max_value=BASIS_POINTS)
    effective_from = serializers.DateTimeField(required=False)


class ReratingSerializer(serializers.ModelSerializer[Rerating]):
    """`preview` and `result` are by tenant id, in picodollars; `result` grows while it is applied."""

    class Meta:
        model = Rerating
        fields = [
            "id", "number", "start", "end", "reason", "state", "created_at", "created_by", "applied_at", "preview",
            "result",
        ]  # fmt: skip


class NewReratingSerializer(serializers.Serializer[Any]):
    """`end` defaults to now."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField(required=False)
    reason = serializers.CharField(max_length=300)


class ReratingActionSerializer(serializers.Serializer[Any]):
    action = serializers.ChoiceField(choices=["apply", "cancel"])
