from django.db import models
from django.db.models import Q

from apps.common.ids import new_id


class NodeState(models.TextChoices):
    JOINING = "joining", "Joining"
    ONLINE = "online", "Online"
    OFFLINE = "offline", "Offline"


class Node(models.Model):
    """A machine with an agent. `state` follows the agent's link; a cordoned node gets no new replicas."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(max_length=63, unique=True)
    token_sha256 = models.CharField(max_length=64, unique=True)
    state = models.CharField(max_length=20, choices=NodeState.choices, default=NodeState.JOINING)
    is_cordoned = models.BooleanField(default=False)
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


class Accelerator(models.Model):
    """A GPU, or the CPU where there is none; as the agent reported it last."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="accelerators")
    index = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=10)
    name = models.CharField(max_length=200)
    memory_total_bytes = models.BigIntegerField(null=True)

    class Meta:
        ordering = ["node_id", "kind", "index"]
        constraints = [models.UniqueConstraint(fields=["node", "kind", "index"], name="accelerator_is_unique")]

    def __str__(self) -> str:
        return f"{self.kind} {self.index} of {self.node}"
