from django.db import models


class Change(models.Model):
    """That a row of a watched table is new, other or gone; written by the table's trigger, in the same transaction.

    Only ordered by `(transaction, id)`, and only once every earlier transaction is over, are changes read without a
    gap: ids alone are given before their transactions commit. `tenant_id` is whose the row is, null for the platform's.
    """

    id = models.BigAutoField(primary_key=True)
    transaction = models.BigIntegerField()
    kind = models.CharField(max_length=60)
    object_id = models.UUIDField()
    tenant_id = models.UUIDField(null=True)
    is_gone = models.BooleanField(default=False)
    at = models.DateTimeField()

    class Meta:
        ordering = ["transaction", "id"]
        indexes = [
            models.Index(fields=["kind", "transaction", "id"], name="change_of_kind"),
            models.Index(fields=["at"], name="change_at"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.object_id} {'is gone' if self.is_gone else 'changed'}"


class ForgottenChanges(models.Model):
    """One row: up to where changes have been deleted. Who watches from before it has to list again."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    transaction = models.BigIntegerField(default=0)
    change_id = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"forgotten up to {self.transaction}-{self.change_id}"


class KeptAnswer(models.Model):
    """What was answered to a request with an Idempotency-Key. `sealed` can only be opened with that key.

    An answer may hold a secret that is shown once, so that it is not kept readable; the key itself is kept as a hash.
    """

    key_sha256 = models.CharField(primary_key=True, max_length=64)
    request_sha256 = models.CharField(max_length=64)
    sealed = models.BinaryField(null=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"answer kept until {self.expires_at:%Y-%m-%d %H:%M:%S}"
