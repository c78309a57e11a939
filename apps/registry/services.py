from datetime import datetime
from typing import Any

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import InvalidInputError
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.registry.models import Model, ModelVersion


@transaction.atomic
def create_model(*, actor: Actor, name: str, task: str, now: datetime) -> Model:
    model = Model(name=name, task=task, created_at=now)
    save_checked(model)
    record_change(actor=actor, action="model.created", subject=model, now=now, after={"task": task})
    return model


@transaction.atomic
def create_version(
    *,
    actor: Actor,
    model: Model,
    label: str,
    engine: str,
    source: str,
    served_name: str,
    now: datetime,
    engine_args: dict[str, Any] | None = None,
    max_context_tokens: int | None = None,
) -> ModelVersion:
    if not isinstance(engine_args or {}, dict):
        raise InvalidInputError("engine_args is an object", fields={"engine_args": "must be an object"})
    version = ModelVersion(
        model=model,
        label=label,
        engine=engine,
        source=source,
        served_name=served_name,
        engine_args=engine_args or {},
        max_context_tokens=max_context_tokens,
        created_at=now,
    )
    save_checked(version)
    after = {"engine": engine, "source": source, "served_name": served_name}
    record_change(actor=actor, action="version.created", subject=version, now=now, after=after)
    return version


@transaction.atomic
def change_engine(
    *,
    actor: Actor,
    version: ModelVersion,
    engine: str,
    source: str,
    engine_args: dict[str, Any],
    max_context_tokens: int | None,
    now: datetime,
) -> ModelVersion:
    """Another engine for the same version: its replicas are replaced."""
    before = {"engine": version.engine, "source": version.source}
    version.engine, version.source, version.engine_args = engine, source, engine_args
    version.max_context_tokens = max_context_tokens
    save_checked(version)
    after = {"engine": engine, "source": source}
    record_change(actor=actor, action="version.engine_changed", subject=version, now=now, before=before, after=after)
    enqueue_on_commit("placement.reconcile")
    enqueue_on_commit("routing.publish")
    return version
