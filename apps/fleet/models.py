from django.db import models
from django.db.models import Q

from apps.common.ids import new_id


class NodeState(models.TextChoices):
    JOINING = "joining", "Joining"
    ONLINE = "online", "Online"
    OFFLINE = "offline", "Offline"


class Node(models.Model):
    """A machine with an agent. `state` follows the agent's link; a cordoned node gets no new replicas.

    A draining one gives up those it has. A lost one has been silent for longer than its lease: its replicas are placed
    elsewhere, and what it still runs is stopped when it comes back.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(max_length=63, unique=True)
    token_sha256 = models.CharField(max_length=64, unique=True)
    state = models.CharField(max_length=20, choices=NodeState.choices, default=NodeState.JOINING)
    is_cordoned = models.BooleanField(default=False)
    is_draining = models.BooleanField(default=False)
    is_lost = models.BooleanField(default=False)
    labels = models.JSONField(default=dict, blank=True)
    gateway_url = models.CharField(max_length=200, blank=True)
    boot_id = models.CharField(max_length=64, blank=True)
    agent_version = models.CharField(max_length=50, blank=True)
    inventory = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.CheckConstraint(condition=Q(state__in=NodeState.values), name="node_state_is_known")]

    def __str__(self) -> str:
        return self.name


class RemovedNode(models.Model):
    """So that an agent that comes back late is told that its node was removed, and not that its token is unknown."""

    id = models.UUIDField(primary_key=True, editable=False)
    name = models.CharField(max_length=63)
    token_sha256 = models.CharField(max_length=64, unique=True)
    removed_at = models.DateTimeField()

    class Meta:
        ordering = ["-removed_at"]

    def __str__(self) -> str:
        return f"{self.name}, removed"


class Accelerator(models.Model):
    """A GPU or a MIG slice of one, or the CPU where there is none; as the agent reported it last.

    `key` is the agent's name of it. `model` is the catalogue's name, "" where it is not in there.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="accelerators")
    index = models.PositiveSmallIntegerField()
    key = models.CharField(max_length=80, default="")
    kind = models.CharField(max_length=10)
    name = models.CharField(max_length=200)
    model = models.CharField(max_length=40, blank=True)
    profile = models.CharField(max_length=40, blank=True)
    memory_total_bytes = models.BigIntegerField(null=True)
    foreign_bytes = models.BigIntegerField(default=0)
    island = models.PositiveSmallIntegerField(null=True)
    numa = models.PositiveSmallIntegerField(null=True)
    driver_version = models.CharField(max_length=40, blank=True)
    foreign_processes = models.JSONField(default=list, blank=True)
    problem = models.CharField(max_length=200, blank=True)
    nvlinks = models.JSONField(default=list, blank=True)
    pci_bus_id = models.CharField(max_length=20, blank=True)
    pcie_generation = models.PositiveSmallIntegerField(null=True)
    pcie_width = models.PositiveSmallIntegerField(null=True)

    class Meta:
        ordering = ["node_id", "kind", "index"]
        constraints = [models.UniqueConstraint(fields=["node", "key"], name="accelerator_is_unique")]

    def __str__(self) -> str:
        return f"{self.kind} {self.index} of {self.node}"


class JoinToken(models.Model):
    """Lets one machine join once. Shown once, kept as its hash."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    prefix = models.CharField(max_length=20)
    token_sha256 = models.CharField(max_length=64, unique=True)
    labels = models.JSONField(default=dict, blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    node = models.ForeignKey(Node, null=True, blank=True, on_delete=models.SET_NULL, related_name="join_tokens")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"join token {self.prefix}"
