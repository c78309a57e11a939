from django.db import models

from apps.common.ids import new_id
from apps.tenants.models import User


class SecondFactor(models.Model):
    """A TOTP device. `secret` is sealed (policies.seal); a code of a step up to `last_step` is never taken again."""

    user = models.OneToOneField(User, primary_key=True, on_delete=models.CASCADE, related_name="second_factor")
    sealed_secret = models.CharField(max_length=300)
    created_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(null=True, blank=True)
    last_step = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"second factor of {self.user}"


class RecoveryCode(models.Model):
    """Stands in for the device, once. Shown once, stored hashed."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_codes")
    code_sha256 = models.CharField(max_length=64)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "code_sha256"], name="recovery_code_is_unique")]

    def __str__(self) -> str:
        return f"recovery code of {self.user}"


class SignInSession(models.Model):
    """A browser that is signed in. Its id is in Django's session, which ends when this row does."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_in_sessions")
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    address = models.CharField(max_length=45, blank=True)
    browser = models.CharField(max_length=200, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"session of {self.user} from {self.address}"


class AttemptBucket(models.Model):
    """How often something was tried of late, and until when it is not tried again. `name` holds nothing secret."""

    name = models.CharField(max_length=64, primary_key=True)
    count = models.PositiveIntegerField()
    last_at = models.DateTimeField()
    blocked_until = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.count} attempts"


class OutsideIdentity(models.Model):
    """Who a user is to the identity provider; `subject` never changes there, names and addresses may."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="outside_identities")
    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="outside_identity_is_unique")]

    def __str__(self) -> str:
        return f"{self.user} at {self.issuer}"


class PasswordReset(models.Model):
    """A one-time link. Its token is in the letter, here is its hash.

    It is for the password and the address that the user had then: `made_for_sha256` is of both.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    token_sha256 = models.CharField(max_length=64, unique=True)
    made_for_sha256 = models.CharField(max_length=64, default="")
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"password reset of {self.user}"
