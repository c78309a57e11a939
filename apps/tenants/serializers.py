from typing import Any

from rest_framework import serializers

from apps.audit.models import AuditEntry
from apps.tenants.models import APIKey, Invitation, Membership, Role, ServiceToken, User


class MeSerializer(serializers.Serializer[Any]):
    user_id = serializers.UUIDField()
    name = serializers.CharField()
    is_platform_admin = serializers.BooleanField()
    is_operator = serializers.BooleanField()
    is_finance = serializers.BooleanField()
    roles = serializers.DictField(child=serializers.CharField())
    scopes = serializers.ListField(child=serializers.CharField(), allow_null=True)


class MemberSerializer(serializers.ModelSerializer[Membership]):
    username = serializers.CharField(source="user.username")
    email = serializers.CharField(source="user.email")
    is_service_account = serializers.BooleanField(source="user.is_service_account")

    class Meta:
        model = Membership
        fields = [
            "id",
            "tenant_id",
            "user_id",
            "username",
            "email",
            "role",
            "source",
            "is_service_account",
            "created_at",
        ]


class NewMemberSerializer(serializers.Serializer[Any]):
    """With a password the user is created; without one an operator adds a user there is."""

    username = serializers.CharField(max_length=150)
    role = serializers.ChoiceField(choices=Role.choices)
    password = serializers.CharField(min_length=10, max_length=200, required=False, write_only=True)
    email = serializers.EmailField(required=False, default="", allow_blank=True)


class RoleSerializer(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=Role.choices)


class APIKeySerializer(serializers.ModelSerializer[APIKey]):
    owner_name = serializers.CharField(source="owner.username", default="")
    tenant_name = serializers.CharField(source="tenant.name")
    models = serializers.ListField(child=serializers.CharField(), source="allowed_models")
    paths = serializers.ListField(child=serializers.CharField(), source="allowed_paths")
    networks = serializers.ListField(child=serializers.CharField(), source="allowed_networks")

    class Meta:
        model = APIKey
        fields = [
            "id", "name", "prefix", "tenant_id", "tenant_name", "owner_id", "owner_name", "models",
            "paths", "networks", "replaces_id", "created_at", "expires_at", "revoked_at",
        ]  # fmt: skip


class NewAPIKeySerializer(serializers.Serializer[Any]):
    tenant_id = serializers.UUIDField()
    name = serializers.CharField(max_length=100)
    models = serializers.ListField(child=serializers.CharField(max_length=100), max_length=100, required=False)
    paths = serializers.ListField(child=serializers.CharField(max_length=100), max_length=20, default=list)
    networks = serializers.ListField(child=serializers.CharField(max_length=50), max_length=64, default=list)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class RotationSerializer(serializers.Serializer[Any]):
    """For how long the old key still works beside the new one."""

    overlap_s = serializers.IntegerField(default=86_400, min_value=0)


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
        fields = ["id", "name", "prefix", "scopes", "created_at", "expires_at", "revoked_at"]


class NewServiceTokenSerializer(serializers.Serializer[Any]):
    """Without scopes the token may whatever its owner may at this time."""

    name = serializers.CharField(max_length=100)
    scopes = serializers.ListField(child=serializers.CharField(max_length=50), max_length=30, required=False)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class ShownOnceServiceTokenSerializer(ServiceTokenSerializer):
    token = serializers.CharField()

    class Meta(ServiceTokenSerializer.Meta):
        fields = ["token", *ServiceTokenSerializer.Meta.fields]


class NewServiceAccountSerializer(serializers.Serializer[Any]):
    name = serializers.SlugField(max_length=100)
    role = serializers.ChoiceField(choices=Role.choices)


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    invited_by = serializers.CharField(source="invited_by.username", default="")

    class Meta:
        model = Invitation
        fields = [
            "id", "tenant_id", "email", "role", "invited_by", "created_at", "expires_at", "accepted_at", "revoked_at",
        ]  # fmt: skip


class NewInvitationSerializer(serializers.Serializer[Any]):
    email = serializers.EmailField()
    role = serializers.ChoiceField(choices=Role.choices)


class ShownOnceInvitationSerializer(InvitationSerializer):
    """`link` is in the letter and in this answer, and nowhere else."""

    link = serializers.CharField()

    class Meta(InvitationSerializer.Meta):
        fields = ["link", *InvitationSerializer.Meta.fields]


class UserSerializer(serializers.ModelSerializer[User]):
    class Meta:
        model = User
        fields = [
            "id", "username", "email", "is_active", "is_service_account", "is_platform_admin", "is_operator",
            "is_finance", "date_joined", "last_login",
        ]  # fmt: skip


class UserChangeSerializer(serializers.Serializer[Any]):
    email = serializers.EmailField(required=False, allow_blank=True)
    is_active = serializers.BooleanField(required=False)
    is_platform_admin = serializers.BooleanField(required=False)
    is_operator = serializers.BooleanField(required=False)
    is_finance = serializers.BooleanField(required=False)


class NewUserSerializer(serializers.Serializer[Any]):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(min_length=10, max_length=200, write_only=True)
    email = serializers.EmailField(required=False, default="", allow_blank=True)
    is_platform_admin = serializers.BooleanField(default=False)
    is_operator = serializers.BooleanField(default=False)
    is_finance = serializers.BooleanField(default=False)


class AuditQuerySerializer(serializers.Serializer[Any]):
    """`since` ≤ at < `until`; `q` is looked for in names and actions, the others are exact."""

    tenant = serializers.UUIDField(required=False, default=None)
    actor_id = serializers.UUIDField(required=False, default=None)
    action = serializers.CharField(required=False, default="", max_length=50)
    subject_type = serializers.CharField(required=False, default="", max_length=50)
    subject_id = serializers.CharField(required=False, default="", max_length=64)
    since = serializers.DateTimeField(required=False, default=None)
    until = serializers.DateTimeField(required=False, default=None)
    q = serializers.CharField(required=False, default="", max_length=200, source="search")


class AuditEntrySerializer(serializers.ModelSerializer[AuditEntry]):
    class Meta:
        model = AuditEntry
        fields = [
            "id", "at", "actor_id", "actor_name", "action", "subject_type", "subject_id", "subject_name", "tenant_id",
            "before", "after",
        ]  # fmt: skip
