from uuid import UUID

from django.db.models import QuerySet

from apps.common.errors import NotFoundError
from apps.registry.models import Model, ModelVersion
from apps.registry.policies.needs import Registered


def list_models() -> QuerySet[Model]:
    return Model.objects.prefetch_related("versions")


def get_model(model_id: UUID) -> Model:
    model = list_models().filter(pk=model_id).first()
    if model is None:
        raise NotFoundError("no such model")
    return model


def list_versions(*, model_id: UUID | None = None) -> QuerySet[ModelVersion]:
    versions = ModelVersion.objects.select_related("model")
    return versions if model_id is None else versions.filter(model_id=model_id)


def get_version(version_id: UUID) -> ModelVersion:
    version = list_versions().filter(pk=version_id).first()
    if version is None:
        raise NotFoundError("no such model version")
    return version


def name_versions(ids: set[UUID]) -> dict[UUID, str]:
    return {version.pk: str(version) for version in list_versions().filter(pk__in=ids)}


def registered(version: ModelVersion) -> Registered:
    """What its memory depends on."""
    return Registered(
        config=version.config,
        weight_bytes=version.weight_bytes,
        quantisation=version.quantisation,
        max_context_tokens=version.max_context_tokens,
        engine_args=version.engine_args,
    )
