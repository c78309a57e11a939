from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.deployments.models import (
    MAX_REPLICAS,
    Deployment,
    Replica,
    ReplicaEvent,
    Revision,
    is_on_nodes,
    is_on_nodes_named,
)
from apps.deployments.policies.requirements import requirements_schema
from apps.deployments.selectors import get_rollout


class StageSerializer(serializers.Serializer[Any]):
    """Accelerators of one node that a replica has."""

    node_id = serializers.UUIDField()
    keys = serializers.ListField(child=serializers.CharField())


class PartSerializer(serializers.Serializer[Any]):
    """One node's part of an engine that is on several; rank 0 leads."""

    rank = serializers.IntegerField()
    node_id = serializers.UUIDField()
    node_name = serializers.CharField()
    state = serializers.CharField()
    detail = serializers.CharField(allow_blank=True)
    restarts = serializers.IntegerField()


class ReplicaEventSerializer(serializers.ModelSerializer[ReplicaEvent]):
    log_tail = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = ReplicaEvent
        fields = ["id", "replica_id", "at", "state", "detail", "log_tail"]


class RolloutSerializer(serializers.Serializer[Any]):
    """How far a deployment is on its way to its newest revision; `detail` is what it waits for."""

    state = serializers.ChoiceField(choices=["done", "paused", "progressing", "stuck"])
    detail = serializers.CharField()
    wanted_count = serializers.IntegerField()
    newer_count = serializers.IntegerField()
    newer_ready_count = serializers.IntegerField()
    older_count = serializers.IntegerField()
    older_ready_count = serializers.IntegerField()


class RevisionSerializer(serializers.ModelSerializer[Revision]):
    version = serializers.CharField(source="version.__str__")
    requirements = serializers.DictField()
    process = serializers.DictField()

    class Meta:
        model = Revision
        fields = [
            "id", "number", "version_id", "version", "max_running_requests", "requirements", "process", "created_at",
        ]  # fmt: skip


class UndoSerializer(serializers.Serializer[Any]):
    """Without a number: the revision before the newest."""

    number = serializers.IntegerField(required=False, min_value=1)


# What a node says of its engine, and what the loops make of that.
REPORTED_OF_REPLICAS = frozenset({
    "port", "state", "detail", "restarts", "drain_reason", "is_asleep", "progress_ratio", "measured_bytes",
    "has_given_up", "alarm", "parts", "state_changed_at",
})  # fmt: skip


class ReplicaSerializer(serializers.ModelSerializer[Replica]):
    deployment_name = serializers.CharField(source="deployment.name")
    node_name = serializers.CharField(source="node.name", default="")
    revision_number = serializers.IntegerField(source="revision.number")
    stages = StageSerializer(many=True)
    parts = PartSerializer(source="told_parts", many=True)

    class Meta:
        model = Replica
        fields = [
            "id", "deployment_id", "deployment_name", "node_id", "node_name", "port", "revision_number", "state",
            "detail", "restarts", "is_draining", "drain_reason", "is_asleep", "progress_ratio", "stages",
            "parts", "reserved_bytes", "is_exclusive", "measured_bytes", "has_given_up", "alarm", "created_at",
            "state_changed_at",
        ]  # fmt: skip
        found_by = {"node_id": is_on_nodes, "node_name": is_on_nodes_named}


class DeploymentSerializer(serializers.ModelSerializer[Deployment]):
    version = serializers.CharField(source="version.__str__")
    ready_count = serializers.IntegerField(default=0)
    requirements = serializers.DictField()
    wanted_count = serializers.IntegerField()
    rollout = serializers.SerializerMethodField()

    class Meta:
        model = Deployment
        fields = [
            "id", "name", "version_id", "version", "replica_count", "autoscaled_count", "wanted_count", "ready_count",
            "max_running_requests", "requirements", "keeps_asleep", "max_surge", "max_unavailable",
            "is_rollout_paused", "rollout", "created_at",
        ]  # fmt: skip

    @extend_schema_field(RolloutSerializer)
    def get_rollout(self, deployment: Deployment) -> dict[str, Any]:
        return dict(RolloutSerializer(get_rollout(deployment)).data)


class PaceSerializer(serializers.Serializer[Any]):
    """Surplus replicas sleep where `keeps_asleep`. The others bound a rollout: so many more than wanted, or fewer."""

    keeps_asleep = serializers.BooleanField(required=False)
    max_surge = serializers.IntegerField(min_value=0, max_value=MAX_REPLICAS, required=False)
    max_unavailable = serializers.IntegerField(min_value=0, max_value=MAX_REPLICAS, required=False)


@extend_schema_field(requirements_schema())
class RequirementsField(serializers.DictField):
    """Checked by policies/requirements.py, whose fields the description takes."""


class NewDeploymentSerializer(PaceSerializer):
    name = serializers.SlugField(max_length=63)
    version_id = serializers.UUIDField()
    replica_count = serializers.IntegerField(default=1, min_value=0, max_value=MAX_REPLICAS)
    max_running_requests = serializers.IntegerField(default=64, min_value=1, max_value=100_000)
    requirements = RequirementsField(required=False)


class DeploymentChangeSerializer(PaceSerializer):
    """What is left out stays as it is. Another version, or what changes its engines, is rolled out."""

    version_id = serializers.UUIDField(required=False)
    replica_count = serializers.IntegerField(min_value=0, max_value=MAX_REPLICAS, required=False)
    max_running_requests = serializers.IntegerField(min_value=1, max_value=100_000, required=False)
    requirements = RequirementsField(required=False)


class EventSerializer(ReplicaEventSerializer):
    deployment_name = serializers.CharField(source="replica.deployment.name")

    class Meta(ReplicaEventSerializer.Meta):
        fields = [*ReplicaEventSerializer.Meta.fields, "deployment_name"]
