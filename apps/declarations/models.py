from django.db import models

from apps.common.ids import new_id


class DeclaredThing(models.Model):
    """A thing that a set of documents owns: only that set removes it when its document is gone."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    set_name = models.SlugField(max_length=63)
    kind = models.CharField(max_length=30)
    title = models.CharField(max_length=700)
    applied_at = models.DateTimeField()
    applied_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["kind", "title"], name="declared_thing_has_one_owner")]
        indexes = [models.Index(fields=["set_name"], name="declared_in_set")]

    def __str__(self) -> str:
        return f"{self.kind} {self.title} of {self.set_name}"
