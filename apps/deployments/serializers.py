from typing import Any

from rest_framework import serializers

from apps.deployments.models import MAX_REPLICAS, Deployment, Replica, ReplicaEvent


class StageSerializer(serializers.Serializer[Any]):
    """Accelerators of one node that a replica has."""

    node_id = serializers.UUIDField()
    keys = serializers.ListField(child=serializers.CharField())


class ReplicaEventSerializer(serializers.ModelSerializer[ReplicaEvent]):
    class Meta:
        model = ReplicaEvent
        fields = ["id", "replica_id", "at", "state", "detail"]


class ReplicaSerializer(serializers.ModelSerializer[Replica]):
    node_name = serializers.CharField(source="node.name", default="")
    stages = StageSerializer(many=True)

    class Meta:
        model = Replica
        fields = [
            "id", "deployment_id", "node_id", "node_name", "port", "state", "detail", "restarts", "is_draining",
            "stages", "reserved_bytes", "is_exclusive", "measured_bytes", "has_given_up", "alarm", "created_at",
            "state_changed_at",
        ]  # fmt: skip


class DeploymentSerializer(serializers.ModelSerializer[Deployment]):
    version = serializers.CharField(source="version.__str__")
    ready_count = serializers.IntegerField(default=0)
    requirements = serializers.DictField()

    class Meta:
        model = Deployment
        fields = [
            "id", "name", "version_id", "version", "replica_count", "ready_count", "max_running_requests",
            "requirements", "created_at",
        ]  # fmt: skip


class NewDeploymentSerializer(serializers.Serializer[Any]):
    name = serializers.SlugField(max_length=63)
    version_id = serializers.UUIDField()
    replica_count = serializers.IntegerField(default=1, min_value=0, max_value=MAX_REPLICAS)
    max_running_requests = serializers.IntegerField(default=64, min_value=1, max_value=100_000)
    requirements = serializers.DictField(required=False)


class DeploymentChangeSerializer(serializers.Serializer[Any]):
    """What is left out stays as it is."""

    replica_count = serializers.IntegerField(min_value=0, max_value=MAX_REPLICAS, required=False)
    max_running_requests = serializers.IntegerField(min_value=1, max_value=100_000, required=False)
    requirements = serializers.DictField(required=False)
