from typing import Any

from rest_framework import serializers

from apps.quotas.models import MAX_WEIGHT, MIN_WEIGHT, ServiceClass, SLOProfile, TenantPolicy
from apps.tenants.models import Tenant
from apps.tenants.policies import LEVELS

BIGGEST_INTEGER = 2**31 - 1
BIGGEST_SMALLINT = 2**15 - 1


class ServiceClassSerializer(serializers.ModelSerializer[ServiceClass]):
    rank = serializers.IntegerField(min_value=0, max_value=BIGGEST_SMALLINT)

    class Meta:
        model = ServiceClass
        fields = ["id", "name", "rank"]


class SLOProfileSerializer(serializers.ModelSerializer[SLOProfile]):
    ttft_ms = serializers.IntegerField(min_value=1, max_value=BIGGEST_INTEGER)
    tpot_ms = serializers.IntegerField(min_value=1, max_value=BIGGEST_INTEGER)

    class Meta:
        model = SLOProfile
        fields = ["id", "name", "ttft_ms", "tpot_ms"]


class TenantSerializer(serializers.ModelSerializer[Tenant]):
    full_name = serializers.CharField()
    kind = serializers.ChoiceField(choices=LEVELS)

    class Meta:
        model = Tenant
        fields = ["id", "name", "full_name", "kind", "parent_id", "created_at"]


class PolicySerializer(serializers.ModelSerializer[TenantPolicy]):
    service_class = serializers.CharField(source="service_class.name")
    slo_profile = serializers.CharField(source="slo_profile.name")

    class Meta:
        model = TenantPolicy
        fields = ["tenant_id", "service_class", "slo_profile", "weight", "max_queued_requests"]


class NewPolicySerializer(serializers.Serializer[Any]):
    service_class = serializers.SlugField()
    slo_profile = serializers.SlugField()
    weight = serializers.FloatField(default=1.0, min_value=MIN_WEIGHT, max_value=MAX_WEIGHT)
    max_queued_requests = serializers.IntegerField(default=1000, min_value=0, max_value=BIGGEST_INTEGER)


class NewTenantSerializer(NewPolicySerializer):
    name = serializers.SlugField(max_length=63)


class NewChildSerializer(serializers.Serializer[Any]):
    name = serializers.SlugField(max_length=63)
