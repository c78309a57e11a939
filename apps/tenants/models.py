from datetime import datetime
from typing import Self

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower

from apps.common.ids import new_id


class User(AbstractUser):
    """Signs in by username, or by email where there is one. `is_operator` and `is_finance` are platform roles."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    email = models.EmailField(blank=True)
    is_operator = models.BooleanField(default=False)
    is_finance = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(Lower("email"), condition=~Q(email=""), name="user_email_is_unique"),
        ]


class Tenant(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(max_length=63, unique=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    TENANT_ADMIN = "tenant_admin", "Tenant admin"
    DEVELOPER = "developer", "Developer"
    VIEWER = "viewer", "Viewer"


class Membership(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role.choices)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user"], name="membership_is_unique"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_is_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.tenant}"


class KeyKind(models.TextChoices):
    NORMAL = "normal", "Normal"
    PLAYGROUND = "playground", "Playground"


class APIKeyQuerySet(models.QuerySet["APIKey"]):
    def usable(self, now: datetime) -> Self:
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)


class APIKey(models.Model):
    """The key itself is shown once and kept nowhere. `allowed_models` are public names; an empty list allows all."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="api_keys")
    owner = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="api_keys")
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=20, choices=KeyKind.choices, default=KeyKind.NORMAL)
    prefix = models.CharField(max_length=8, unique=True)
    key_sha256 = models.CharField(max_length=64, unique=True)
    allowed_models = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = APIKeyQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=~Q(kind=KeyKind.PLAYGROUND) | Q(expires_at__isnull=False), name="playground_key_expires"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} (ty-{self.prefix}…)"

    def is_usable(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


class ServiceToken(models.Model):
    """A bearer token for the REST API that acts as its owner. Shown once, stored hashed."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="service_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=8, unique=True)
    token_sha256 = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.name} (tys-{self.prefix}…)"
