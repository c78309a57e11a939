from typing import Any

from rest_framework import serializers

from apps.tenants.models import APIKey, Membership, Role, ServiceToken


class MeSerializer(serializers.Serializer[Any]):
    user_id = serializers.UUIDField()
    name = serializers.CharField()
    is_operator = serializers.BooleanField()
    is_finance = serializers.BooleanField()
    roles = serializers.DictField(child=serializers.CharField())


class MemberSerializer(serializers.ModelSerializer[Membership]):
    username = serializers.CharField(source="user.username")
    email = serializers.CharField(source="user.email")

    class Meta:
        model = Membership
        fields = ["id", "tenant_id", "user_id", "username", "email", "role", "created_at"]


class NewMemberSerializer(serializers.Serializer[Any]):
    """With a password the user is created; without one an operator adds a user there is."""

    username = serializers.CharField(max_length=150)
    role = serializers.ChoiceField(choices=Role.choices)
    password = serializers.CharField(max_length=200, required=False, write_only=True)
    email = serializers.EmailField(required=False, default="", allow_blank=True)


class RoleSerializer(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=Role.choices)


class APIKeySerializer(serializers.ModelSerializer[APIKey]):
    owner_name = serializers.CharField(source="owner.username", default="")
    tenant_name = serializers.CharField(source="tenant.name")
    models = serializers.ListField(child=serializers.CharField(), source="allowed_models")

    class Meta:
        model = APIKey
        fields = [
            "id", "name", "prefix", "tenant_id", "tenant_name", "owner_id", "owner_name", "models",
            "created_at", "expires_at", "revoked_at",
        ]  # fmt: skip


class NewAPIKeySerializer(serializers.Serializer[Any]):
    tenant_id = serializers.UUIDField()
    name = serializers.CharField(max_length=100)
    models = serializers.ListField(child=serializers.CharField(max_length=100), max_length=100, required=False)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class ShownOnceAPIKeySerializer(APIKeySerializer):
    """`key` is in the answer to the creation and nowhere else."""

    key = serializers.CharField()

    class Meta(APIKeySerializer.Meta):
        fields = ["key", *APIKeySerializer.Meta.fields]


class PlaygroundSerializer(serializers.Serializer[Any]):
    tenant_id = serializers.UUIDField()


class ServiceTokenSerializer(serializers.ModelSerializer[ServiceToken]):
    class Meta:
        model = ServiceToken
        fields = ["id", "name", "prefix", "created_at", "expires_at", "revoked_at"]


class NewServiceTokenSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=100)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class ShownOnceServiceTokenSerializer(ServiceTokenSerializer):
    token = serializers.CharField()

    class Meta(ServiceTokenSerializer.Meta):
        fields = ["token", *ServiceTokenSerializer.Meta.fields]
