from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Q

from apps.common.ids import new_id
from apps.fleet.models import Node
from apps.registry.models import ModelVersion

MAX_REPLICAS = 64


class Deployment(models.Model):
    """A model version that should run, how often, and how many requests each engine keeps at once.

    `requirements` says what its replicas need of a machine (policies/requirements.py).
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(max_length=63, unique=True)
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="deployments")
    replica_count = models.PositiveSmallIntegerField(default=1, validators=[MaxValueValidator(MAX_REPLICAS)])
    max_running_requests = models.PositiveIntegerField(default=64)
    requirements = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class ReplicaState(models.TextChoices):
    """policies/lifecycle.py says what follows what. `unknown` has a node that is silent."""

    PENDING = "pending", "Pending"
    PLACED = "placed", "Placed"
    FETCHING = "fetching", "Fetching"
    STARTING = "starting", "Starting"
    WARMING = "warming", "Warming"
    READY = "ready", "Ready"
    DEGRADED = "degraded", "Degraded"
    DRAINING = "draining", "Draining"
    SLEEPING = "sleeping", "Sleeping"
    STOPPED = "stopped", "Stopped"
    FAILED = "failed", "Failed"
    UNKNOWN = "unknown", "Unknown"


class Replica(models.Model):
    """One engine process as the control plane sees it. `detail` says in words why it is in its state.

    `stages` are its accelerators, [{"node_id": …, "keys": […]}], the first of them on `node`; on each it reserves
    `reserved_bytes`, and an exclusive one the rest, too. `alarm` says that it has been in its state for too long.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="replicas")
    node = models.ForeignKey(Node, null=True, on_delete=models.PROTECT, related_name="replicas")
    port = models.PositiveIntegerField(null=True)
    state = models.CharField(max_length=20, choices=ReplicaState.choices, default=ReplicaState.PENDING)
    detail = models.TextField(blank=True)
    spec_hash = models.CharField(max_length=64, blank=True)
    restarts = models.PositiveIntegerField(default=0)
    is_draining = models.BooleanField(default=False)
    stages = models.JSONField(default=list, blank=True)
    reserved_bytes = models.BigIntegerField(default=0)
    is_exclusive = models.BooleanField(default=False)
    memory_share = models.FloatField(null=True, blank=True)
    measured_bytes = models.BigIntegerField(null=True, blank=True)
    has_given_up = models.BooleanField(default=False)
    alarm = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField()
    state_changed_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["node", "port"], name="replica_port_is_unique_on_its_node"),
            models.CheckConstraint(
                condition=Q(node__isnull=True, port__isnull=True) | Q(node__isnull=False, port__isnull=False),
                name="replica_has_node_and_port_or_neither",
            ),
            models.CheckConstraint(condition=Q(state__in=ReplicaState.values), name="replica_state_is_known"),
        ]

    def __str__(self) -> str:
        return f"replica of {self.deployment}"


class ReplicaEvent(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    replica = models.ForeignKey(Replica, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    state = models.CharField(max_length=20, choices=ReplicaState.choices)
    detail = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["replica", "-id"], name="replica_event_newest")]

    def __str__(self) -> str:
        return f"{self.state} at {self.at:%Y-%m-%d %H:%M:%S}"


class NodeDesired(models.Model):
    """The newest desired state of a node; `body` is contracts.DesiredState as JSON."""

    node = models.OneToOneField(Node, primary_key=True, on_delete=models.CASCADE, related_name="desired")
    generation = models.PositiveBigIntegerField()
    fence = models.BigIntegerField()
    content_sha256 = models.CharField(max_length=64)
    body = models.TextField()
    written_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"desired state {self.generation} of {self.node}"
