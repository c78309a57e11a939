from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Q

from apps.common.ids import new_id
from apps.fleet.models import Node
from apps.registry.models import ModelVersion

MAX_REPLICAS = 64
# In the place of an accelerator: the engine runs on the node itself.
HOST_KEY = "cpu"


class Deployment(models.Model):
    """A model version that should run, how often, and how many requests each engine keeps at once.

    `requirements` says what its replicas need of a machine (policies/requirements.py). An autoscaler's target,
    `autoscaled_count`, goes before people's `replica_count` until somebody scales by hand. Surplus replicas sleep where
    `keeps_asleep`, and stop otherwise. The rest paces the way from one revision to the next (policies/replicas.py).
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(max_length=63, unique=True)
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="deployments")
    replica_count = models.PositiveSmallIntegerField(default=1, validators=[MaxValueValidator(MAX_REPLICAS)])
    max_running_requests = models.PositiveIntegerField(default=64)
    requirements = models.JSONField(default=dict, blank=True)
    autoscaled_count = models.PositiveSmallIntegerField(
        null=True, blank=True, validators=[MaxValueValidator(MAX_REPLICAS)]
    )
    keeps_asleep = models.BooleanField(default=False)
    max_surge = models.PositiveSmallIntegerField(default=1, validators=[MaxValueValidator(MAX_REPLICAS)])
    max_unavailable = models.PositiveSmallIntegerField(default=0, validators=[MaxValueValidator(MAX_REPLICAS)])
    is_rollout_paused = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(max_surge__gt=0) | Q(max_unavailable__gt=0), name="rollout_has_room_to_move"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def wanted_count(self) -> int:
        return self.replica_count if self.autoscaled_count is None else self.autoscaled_count


class Revision(models.Model):
    """What a deployment's replicas are, at one time; the newest is what they should become.

    `process` is what the engine is started with. Its content never changes: what is wanted again after something else
    is the same row with a new number. `routed_generation` is the first snapshot that has its version beside those
    before; `is_routed`: every gateway knows that, so that those before may go.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="revisions")
    max_running_requests = models.PositiveIntegerField()
    requirements = models.JSONField(default=dict, blank=True)
    process = models.JSONField()
    content_sha256 = models.CharField(max_length=64)
    routed_generation = models.PositiveBigIntegerField(null=True, blank=True)
    is_routed = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["deployment", "number"], name="revision_number_is_unique"),
            models.UniqueConstraint(fields=["deployment", "content_sha256"], name="revision_content_is_unique"),
        ]

    def __str__(self) -> str:
        return f"revision {self.number} of {self.deployment}"


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


class DrainReason(models.TextChoices):
    """A drain for its node's sake ends with that; one of a rollout or of too many is the loop's own."""

    ASKED = "asked", "Asked for"
    NODE = "node", "Its node is drained"
    ROLLOUT = "rollout", "Replaced by a newer revision"
    SURPLUS = "surplus", "One too many"
    LOST = "lost", "One of its nodes is lost"


class Replica(models.Model):
    """One engine process as the control plane sees it. `detail` says in words why it is in its state.

    `stages` are its accelerators, [{"node_id": …, "keys": […]}], the first of them on `node`; on each it reserves
    `reserved_bytes`, and an exclusive one the rest, too. `alarm` says that it has been in its state for too long.
    `is_draining` and `is_asleep` are what is wanted of it, `drain_reason` why. A higher `incarnation` asks for a fresh
    process. `progress_ratio` is of its weights, while they are fetched.

    One on several nodes (policies/parts.py): `parts` is what each node last said of its part, by the node's id;
    `incarnation` numbers its runs, of which those after `follower_run` are the leader's alone so far, and `started_run`
    may start. `broken_runs` have ended by a part's end, the last at `broken_at`; `is_broken`: so has the one before.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="replicas")
    revision = models.ForeignKey(Revision, on_delete=models.RESTRICT, related_name="replicas")
    node = models.ForeignKey(Node, null=True, on_delete=models.PROTECT, related_name="replicas")
    port = models.PositiveIntegerField(null=True)
    state = models.CharField(max_length=20, choices=ReplicaState.choices, default=ReplicaState.PENDING)
    detail = models.TextField(blank=True)
    spec_hash = models.CharField(max_length=64, blank=True)
    restarts = models.PositiveIntegerField(default=0)
    is_draining = models.BooleanField(default=False)
    drain_reason = models.CharField(max_length=20, choices=DrainReason.choices, blank=True)
    is_asleep = models.BooleanField(default=False)
    incarnation = models.PositiveIntegerField(default=0)
    progress_ratio = models.FloatField(null=True, blank=True)
    stages = models.JSONField(default=list, blank=True)
    reserved_bytes = models.BigIntegerField(default=0)
    is_exclusive = models.BooleanField(default=False)
    memory_share = models.FloatField(null=True, blank=True)
    measured_bytes = models.BigIntegerField(null=True, blank=True)
    has_given_up = models.BooleanField(default=False)
    alarm = models.CharField(max_length=300, blank=True)
    parts = models.JSONField(default=dict, blank=True)
    follower_run = models.PositiveIntegerField(default=0)
    started_run = models.PositiveIntegerField(null=True, blank=True)
    is_broken = models.BooleanField(default=False)
    broken_runs = models.PositiveSmallIntegerField(default=0)
    broken_at = models.DateTimeField(null=True, blank=True)
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

    @property
    def node_ids(self) -> list[str]:
        """In the order of its parts: the leader's first."""
        return list(dict.fromkeys(stage["node_id"] for stage in self.stages))

    @property
    def is_on_several(self) -> bool:
        return len(self.node_ids) > 1

    @property
    def told_parts(self) -> list[dict[str, Any]]:
        """What nodes have said of its parts, the leader first; none of one that is on one node."""
        found = [{"node_id": node_id} | told for node_id, told in self.parts.items() if node_id in self.node_ids]
        return sorted(found, key=lambda part: int(part["rank"]))


def is_on_nodes(node_ids: Iterable[UUID]) -> Q:
    """Also of those that only a part of is there, and whose leader is elsewhere."""
    conditions = (Q(node_id=each) | Q(stages__contains=[{"node_id": str(each)}]) for each in node_ids)
    return reduce(or_, conditions, Q(pk__in=[]))


def is_on_nodes_named(names: Iterable[str]) -> Q:
    return is_on_nodes(Node.objects.filter(name__in=list(names)).values_list("pk", flat=True))


class ReplicaEvent(models.Model):
    """`log_tail` are the last lines of its engine's log when it failed."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    replica = models.ForeignKey(Replica, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    state = models.CharField(max_length=20, choices=ReplicaState.choices)
    detail = models.TextField(blank=True)
    log_tail = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["replica", "-id"], name="replica_event_newest")]

    def __str__(self) -> str:
        return f"{self.state} at {self.at:%Y-%m-%d %H:%M:%S}"


class MemoryMeasurement(models.Model):
    """What a version's engines were measured to use on each GPU of a model, with so many of them: the newest word.

    `kv_tokens` is what their cache held, which is part of it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    version = models.ForeignKey(ModelVersion, on_delete=models.CASCADE, related_name="measurements")
    gpu_count = models.PositiveSmallIntegerField()
    gpu_model = models.CharField(max_length=40)
    memory_bytes = models.BigIntegerField()
    kv_tokens = models.BigIntegerField(null=True, blank=True)
    measured_at = models.DateTimeField()

    class Meta:
        ordering = ["version_id", "gpu_count", "gpu_model"]
        constraints = [
            models.UniqueConstraint(fields=["version", "gpu_count", "gpu_model"], name="measurement_is_unique"),
            models.CheckConstraint(condition=Q(memory_bytes__gt=0), name="measurement_is_something"),
        ]

    def __str__(self) -> str:
        return f"{self.memory_bytes} bytes of {self.version} on each of {self.gpu_count} {self.gpu_model}"


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
