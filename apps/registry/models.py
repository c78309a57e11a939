from django.db import models
from django.db.models import Q

from apps.common.ids import new_id


class Task(models.TextChoices):
    GENERATE = "generate", "Generate"
    EMBED = "embed", "Embed"


class Engine(models.TextChoices):
    VLLM = "vllm", "vLLM"
    LLAMACPP = "llamacpp", "llama.cpp"
    FAKE = "fake", "Fake"


class Model(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(max_length=63, unique=True)
    task = models.CharField(max_length=20, choices=Task.choices)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [models.CheckConstraint(condition=Q(task__in=Task.values), name="model_task_is_known")]

    def __str__(self) -> str:
        return self.name


class ModelVersion(models.Model):
    """What an engine loads. `source` and `engine_args` mean what the adapter of `engine` says they mean.

    `config` is the model's own config.json, and `weight_bytes` the size that its weight index or its file gives; {} and
    None where nobody gave them. `lora_adapters` are [{"name": …, "source": …}].
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    model = models.ForeignKey(Model, on_delete=models.PROTECT, related_name="versions")
    label = models.SlugField(max_length=30)
    engine = models.CharField(max_length=20, choices=Engine.choices)
    source = models.CharField(max_length=500)
    served_name = models.CharField(max_length=200)
    engine_args = models.JSONField(default=dict, blank=True)
    max_context_tokens = models.PositiveIntegerField(null=True, blank=True)
    revision = models.CharField(max_length=100, blank=True)
    dtype = models.CharField(max_length=20, blank=True)
    quantisation = models.CharField(max_length=30, blank=True)
    licence = models.CharField(max_length=100, blank=True)
    tags = models.JSONField(default=list, blank=True)
    lora_adapters = models.JSONField(default=list, blank=True)
    config = models.JSONField(default=dict, blank=True)
    weight_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["model__name", "label"]
        constraints = [
            models.UniqueConstraint(fields=["model", "label"], name="version_label_is_unique"),
            models.CheckConstraint(condition=Q(engine__in=Engine.values), name="version_engine_is_known"),
        ]

    def __str__(self) -> str:
        return f"{self.model.name}:{self.label}"

    @property
    def weights_key(self) -> str:
        """Names its weights on a node's disk, for versions that share them, too."""
        return f"{self.source}@{self.revision}" if self.revision else self.source
