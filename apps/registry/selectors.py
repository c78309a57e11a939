from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from apps.common.errors import NotFoundError
from apps.registry.models import Model, ModelVersion
from apps.registry.policies.needs import Registered
from workers.contracts.stores import SourceError, StoreAddress, parse_source, store_of_bucket


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
        has_adapters=bool(version.lora_adapters),
    )


def store_of(source: str) -> StoreAddress | None:
    """Where the bucket of an s3:// source is; None for another kind of source, and for a bucket that nobody set up."""
    try:
        stored = parse_source(source)
    except SourceError:
        return None
    return store_of_bucket(settings.OBJECT_STORES, stored.bucket) if stored else None
