from typing import Any

from rest_framework import serializers

from apps.fleet.models import Accelerator, Node


class AcceleratorSerializer(serializers.ModelSerializer[Accelerator]):
    class Meta:
        model = Accelerator
        fields = ["id", "index", "kind", "name", "memory_total_bytes"]


class NodeSerializer(serializers.ModelSerializer[Node]):
    accelerators = AcceleratorSerializer(many=True)
    inventory = serializers.DictField()

    class Meta:
        model = Node
        fields = [
            "id", "name", "state", "is_cordoned", "gateway_url", "boot_id", "agent_version", "inventory",
            "accelerators", "created_at", "last_seen_at",
        ]  # fmt: skip


class NewNodeSerializer(serializers.Serializer[Any]):
    name = serializers.SlugField(max_length=63)
    gateway_url = serializers.URLField(max_length=200, required=False, default="")


class ShownOnceNodeSerializer(NodeSerializer):
    """`agent_token` is in the answer to the join and nowhere else."""

    agent_token = serializers.CharField()

    class Meta(NodeSerializer.Meta):
        fields = ["agent_token", *NodeSerializer.Meta.fields]


class CordonSerializer(serializers.Serializer[Any]):
    is_cordoned = serializers.BooleanField()
