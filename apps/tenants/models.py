from datetime import datetime
from typing import Self
from uuid import UUID

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower

from apps.common.ids import new_id
from apps.tenants.policies import LEVELS


class User(AbstractUser):
    """Signs in by username, or by email where there is one. The first three flags are platform roles.

    A service account never signs in: programs act as it with its tokens. `access_version` grows with each change of
    what the user may do; a session that has seen an older one gets a new id.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    email = models.EmailField(blank=True)
    is_platform_admin = models.BooleanField(default=False)
    is_operator = models.BooleanField(default=False)
    is_finance = models.BooleanField(default=False)
    is_service_account = models.BooleanField(default=False)
    access_version = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(Lower("email"), condition=~Q(email=""), name="user_email_is_unique"),
        ]


class TenantQuerySet(models.QuerySet["Tenant"]):
    def present(self) -> Self:
        """Those that were not removed."""
        return self.filter(removed_at=None)

    def under(self, tenant_id: UUID) -> Self:
        """The tenant and all below it, removed or not."""
        return self.filter(Q(pk=tenant_id) | Q(parent_id=tenant_id) | Q(parent__parent_id=tenant_id))


class Tenant(models.Model):
    """An organisation, a team of it or a project of that: `level` 0, 1 or 2. Only a leaf has keys.

    A removed one stays as a name that what it used is billed to; its name may be given again.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    level = models.PositiveSmallIntegerField(default=0)
    name = models.SlugField(max_length=63)
    created_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = TenantQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["parent", "name"],
                condition=Q(removed_at=None),
                name="tenant_name_is_unique",
                nulls_distinct=False,
                violation_error_code="unique",
                violation_error_message="There is a tenant of this name here already.",
            ),
            models.CheckConstraint(
                condition=Q(level=0, parent=None) | Q(level__in=(1, 2), parent__isnull=False),
                name="tenant_level_fits_parent",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def kind(self) -> str:
        return LEVELS[self.level]

    @property
    def full_name(self) -> str:
        """Tells it from every other tenant: `acme/search/prod`."""
        return f"{self.parent.full_name}/{self.name}" if self.parent else self.name


class Role(models.TextChoices):
    TENANT_ADMIN = "tenant_admin", "Tenant admin"
    DEVELOPER = "developer", "Developer"
    VIEWER = "viewer", "Viewer"


class MembershipSource(models.TextChoices):
    LOCAL = "local", "Given here"
    OIDC = "oidc", "From the identity provider's groups"


class Membership(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role.choices)
    source = models.CharField(max_length=10, choices=MembershipSource.choices, default=MembershipSource.LOCAL)
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
        """A key whose owner is disabled works no more than its owner."""
        owned = Q(owner=None) | Q(owner__is_active=True)
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), owned, revoked_at=None)


class APIKey(models.Model):
    """The key itself is shown once and kept nowhere.

    `allowed_models` are public names, `allowed_paths` paths of a gateway, `allowed_networks` CIDR ranges of clients; an
    empty list allows all. A key that `replaces` another was made by rotating it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="api_keys")
    owner = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="api_keys")
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=20, choices=KeyKind.choices, default=KeyKind.NORMAL)
    prefix = models.CharField(max_length=8, unique=True)
    key_sha256 = models.CharField(max_length=64, unique=True)
    allowed_models = models.JSONField(default=list, blank=True)
    allowed_paths = models.JSONField(default=list, blank=True)
    allowed_networks = models.JSONField(default=list, blank=True)
    replaces = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="successors")
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
        is_in_time = self.expires_at is None or self.expires_at > now
        return self.revoked_at is None and is_in_time and (self.owner is None or self.owner.is_active)


class ServiceToken(models.Model):
    """A bearer token for REST that acts as its owner within `scopes` (permissions). Shown once, stored hashed."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="service_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=8, unique=True)
    token_sha256 = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.name} (tys-{self.prefix}…)"


class Invitation(models.Model):
    """A one-time link into a tenant. Its token is in the mail and in the answer that made it, here is its hash."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField()
    role = models.CharField(max_length=20, choices=Role.choices)
    token_sha256 = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"invitation of {self.email}"

    def is_open(self, now: datetime) -> bool:
        return self.accepted_at is None and self.revoked_at is None and self.expires_at > now
