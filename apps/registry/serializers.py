from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.registry.models import Engine, Model, ModelVersion, Task


class VersionSerializer(serializers.ModelSerializer[ModelVersion]):
    model_name = serializers.CharField(source="model.name")
    engine_args = serializers.DictField()
    tags = serializers.ListField(child=serializers.CharField())
    lora_adapters = serializers.ListField(child=serializers.DictField())

    class Meta:
        model = ModelVersion
        fields = [
            "id", "model_id", "model_name", "label", "engine", "source", "served_name", "engine_args",
            "max_context_tokens", "revision", "dtype", "quantisation", "licence", "tags", "lora_adapters",
            "weight_bytes", "created_at",
        ]  # fmt: skip


class ModelSerializer(serializers.ModelSerializer[Model]):
    class Meta:
        model = Model
        fields = ["id", "name", "task", "created_at"]


class NewModelSerializer(serializers.Serializer[Any]):
    name = serializers.SlugField(max_length=63)
    task = serializers.ChoiceField(choices=Task.choices)


class LoRAAdapterSerializer(serializers.Serializer[Any]):
    name = serializers.SlugField(max_length=63)
    source = serializers.CharField(max_length=500)  # type: ignore[assignment]  # likewise
    revision = serializers.CharField(max_length=100, required=False)


class NewVersionSerializer(serializers.Serializer[Any]):
    label = serializers.SlugField(max_length=30)  # type: ignore[assignment]  # DRF takes fields off the class
    engine = serializers.ChoiceField(choices=Engine.choices)
    source = serializers.CharField(max_length=500)  # type: ignore[assignment]  # likewise
    served_name = serializers.CharField(max_length=200)
    engine_args = serializers.DictField(required=False)
    revision = serializers.CharField(max_length=100, required=False)
    dtype = serializers.ChoiceField(choices=["auto", "bfloat16", "float16", "float32"], required=False)
    quantisation = serializers.CharField(max_length=30, required=False)
    licence = serializers.CharField(max_length=100, required=False)
    tags = serializers.ListField(child=serializers.SlugField(max_length=40), max_length=30, required=False)
    lora_adapters = serializers.ListField(child=LoRAAdapterSerializer(), max_length=64, required=False)
    fetch = serializers.BooleanField(
        default=False, help_text="Reads what is left out from the hub; of an object store it is always read."
    )
    config = serializers.DictField(required=False, help_text="The model's own config.json.")
    weight_index = serializers.DictField(required=False, help_text="Its model.safetensors.index.json.")
    weight_bytes = serializers.IntegerField(required=False, min_value=1, max_value=2**62)
    max_context_tokens = serializers.IntegerField(
        required=False, allow_null=True, default=None, min_value=1, max_value=2**31 - 1
    )


class VersionDescriptionSerializer(serializers.Serializer[Any]):
    """What is left out stays as it is."""

    licence = serializers.CharField(max_length=100, required=False, allow_blank=True)
    tags = serializers.ListField(child=serializers.SlugField(max_length=40), max_length=30, required=False)


_REPOSITORY = r"[A-Za-z0-9][A-Za-z0-9_-]{0,90}/[A-Za-z0-9][A-Za-z0-9_-]{0,90}"
_STORED = r"s3://[a-z0-9][a-z0-9-]{1,60}[a-z0-9]/[A-Za-z0-9][A-Za-z0-9_-]{0,90}"


@extend_schema_field({"type": "string", "pattern": f"^({_REPOSITORY}|{_STORED})$"})
class RepositoryField(serializers.CharField):
    """OWNER/NAME, or s3://BUCKET/PREFIX."""


class FactsQuerySerializer(serializers.Serializer[Any]):
    """A repository of the hub, or a prefix in an object store."""

    source = RepositoryField(max_length=200)  # type: ignore[assignment]  # DRF takes fields off the class
    revision = serializers.CharField(max_length=100, required=False, allow_blank=True, default="")


class FactsSerializer(serializers.Serializer[Any]):
    source = serializers.CharField()  # type: ignore[assignment]  # likewise
    revision = serializers.CharField()
    commit = serializers.CharField(allow_blank=True)
    config = serializers.DictField()
    weight_bytes = serializers.IntegerField(allow_null=True)
    licence = serializers.CharField(allow_blank=True)
    tags = serializers.ListField(child=serializers.CharField())
