from typing import Any
from urllib.parse import urlsplit

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.fleet.models import Accelerator, JoinToken, Node


@extend_schema_field({"type": "string", "pattern": r"^(https?://[A-Za-z0-9][A-Za-z0-9.-]{0,60}(:[1-9]\d{0,3})?)?$"})
class GatewayURLField(serializers.CharField):
    """DRF's own field takes no host without a dot, which is how machines are called in their own network."""

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        if text and not _is_http_address(text):
            raise serializers.ValidationError("write it as http://HOST:PORT")
        return text


def _is_http_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class AcceleratorSerializer(serializers.ModelSerializer[Accelerator]):
    nvlinks = serializers.ListField(child=serializers.IntegerField())

    class Meta:
        model = Accelerator
        fields = [
            "id", "key", "index", "kind", "name", "model", "profile", "memory_total_bytes", "foreign_bytes",
            "foreign_processes", "island", "numa", "driver_version", "problem", "nvlinks", "pci_bus_id",
            "pcie_generation", "pcie_width",
        ]  # fmt: skip


class NodeSerializer(serializers.ModelSerializer[Node]):
    accelerators = AcceleratorSerializer(many=True)
    inventory = serializers.DictField()
    labels = serializers.DictField()

    class Meta:
        model = Node
        fields = [
            "id", "name", "state", "is_cordoned", "is_draining", "is_lost", "labels",
            "gateway_url", "boot_id", "agent_version", "inventory",
            "accelerators", "created_at", "last_seen_at",
        ]  # fmt: skip


# What a node says of itself, and what is concluded from its silence.
REPORTED_OF_NODES = frozenset({
    "state", "is_lost", "gateway_url", "boot_id", "agent_version", "inventory", "accelerators", "last_seen_at",
})  # fmt: skip


class NewNodeSerializer(serializers.Serializer[Any]):
    name = serializers.SlugField(max_length=63)
    gateway_url = GatewayURLField(max_length=200, required=False, allow_blank=True, default="")


class ShownOnceNodeSerializer(NodeSerializer):
    """`agent_token` is in the answer to the join and nowhere else."""

    agent_token = serializers.CharField()

    class Meta(NodeSerializer.Meta):
        fields = ["agent_token", *NodeSerializer.Meta.fields]


class NodeChangeSerializer(serializers.Serializer[Any]):
    """What is left out stays as it is."""

    is_cordoned = serializers.BooleanField(required=False)
    is_draining = serializers.BooleanField(required=False)
    labels = serializers.DictField(child=serializers.CharField(max_length=63, allow_blank=True), required=False)


class NewJoinTokenSerializer(serializers.Serializer[Any]):
    labels = serializers.DictField(child=serializers.CharField(max_length=63, allow_blank=True), required=False)
    lifetime_s = serializers.IntegerField(default=3600, min_value=60, max_value=7 * 24 * 3600)


class JoinTokenSerializer(serializers.ModelSerializer[JoinToken]):
    labels = serializers.DictField()

    class Meta:
        model = JoinToken
        fields = ["id", "prefix", "labels", "created_by", "created_at", "expires_at", "used_at", "node_id"]


class ShownOnceJoinTokenSerializer(JoinTokenSerializer):
    """`token` is in this answer and nowhere else, and so are the lines that hold it."""

    token = serializers.CharField()
    make_line = serializers.CharField()
    container_line = serializers.CharField()
    systemd_unit = serializers.CharField()

    class Meta(JoinTokenSerializer.Meta):
        fields = ["token", "make_line", "container_line", "systemd_unit", *JoinTokenSerializer.Meta.fields]


class JoinSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(max_length=200)
    name = serializers.SlugField(max_length=63)
    gateway_url = GatewayURLField(max_length=200, required=False, allow_blank=True, default="")


class JoinedSerializer(serializers.Serializer[Any]):
    """What an agent needs to know to be one."""

    node_id = serializers.UUIDField()
    agent_token = serializers.CharField()
