from django.db import models
from django.db.models import Q

from apps.common.ids import new_id
from apps.fleet.models import Node
from apps.registry.models import ModelVersion


class Route(models.Model):
    """A public model name → weighted versions, some of which may stand in for others."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    public_name = models.CharField(max_length=100, unique=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["public_name"]

    def __str__(self) -> str:
        return self.public_name

    @property
    def alternatives(self) -> list["RouteTarget"]:
        """In order of preference."""
        ranked = [(target.alternative_rank, target) for target in self.targets.all()]
        found = [(rank, target) for rank, target in ranked if rank is not None]
        return [target for _, target in sorted(found, key=lambda pair: pair[0])]


class RouteTarget(models.Model):
    """`weight` is relative to the sum of the route's weights.

    One with an `alternative_rank`, the least first, may answer what the chosen version cannot answer in time.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="targets")
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="route_targets")
    weight = models.PositiveIntegerField()
    alternative_rank = models.PositiveSmallIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["route", "version"], name="route_target_is_unique"),
            models.UniqueConstraint(
                fields=["route", "alternative_rank"],
                name="route_alternative_rank_is_unique",
                deferrable=models.Deferrable.DEFERRED,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.weight} to {self.version}"


class SnapshotGeneration(models.Model):
    """A compiled, signed snapshot. `content_sha256` covers what gateways act on, not the number or the time."""

    generation = models.PositiveBigIntegerField(primary_key=True)
    content_sha256 = models.CharField(max_length=64)
    envelope = models.TextField()
    compiled_at = models.DateTimeField()

    class Meta:
        ordering = ["-generation"]

    def __str__(self) -> str:
        return f"snapshot generation {self.generation}"


class GatewayState(models.Model):
    """What a node's gateway said last about its snapshot; `error` is why it refused the newest one."""

    node = models.OneToOneField(Node, primary_key=True, on_delete=models.CASCADE, related_name="gateway")
    gateway_id = models.CharField(max_length=64)
    boot_id = models.CharField(max_length=64)
    active_generation = models.PositiveBigIntegerField(default=0)
    error = models.CharField(max_length=500, blank=True)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(active_generation__gte=0), name="gateway_generation_is_not_negative")
        ]

    def __str__(self) -> str:
        return f"gateway of {self.node}"


class PolicyRun(models.Model):
    """An experiment of the policy lab: `experiment` is what was asked for, `summaries` what came of it so far.

    `touched_at` is when something was last heard of it; one that falls silent while it runs is taken for lost.
    `recording` is a trace that came with it, gzipped, until it is over.
    """

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)
    experiment = models.JSONField()
    recording = models.BinaryField(null=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    progress = models.FloatField(default=0.0)
    step = models.CharField(max_length=200, blank=True)
    summaries = models.JSONField(default=list)
    error = models.CharField(max_length=500, blank=True)
    touched_at = models.DateTimeField()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(progress__gte=0) & Q(progress__lte=1), name="policy_run_progress_is_a_share"
            )
        ]

    def __str__(self) -> str:
        return f"{self.experiment.get('trace')} ({self.state})"

    @property
    def is_over(self) -> bool:
        return self.state in {self.State.DONE, self.State.FAILED}
