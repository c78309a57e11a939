from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import ProtectedError, RestrictedError

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import ConflictError, InvalidInputError
from apps.common.saving import lock_row, save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.registry.models import Engine, Model, ModelVersion
from apps.registry.policies.architecture import ConfigError
from apps.registry.policies.needs import facts_of, problem_of_width
from apps.registry.policies.weights import total_of_index
from apps.registry.selectors import registered
from apps.registry.services.adapters import pinned_adapters
from apps.registry.services.stores import checked_source, stored_facts
from workers.contracts.engine_args import problem_of_engine_args
from workers.contracts.stores import is_digest


@transaction.atomic
def create_model(*, actor: Actor, name: str, task: str, now: datetime) -> Model:
    model = Model(name=name, task=task, created_at=now)
    save_checked(model)
    record_change(actor=actor, action="model.created", subject=model, now=now, after={"task": task})
    return model


def create_version(*, actor: Actor, model: Model, now: datetime, **fields: Any) -> ModelVersion:
    """`fields` are those of `draft_version`. No transaction waits while a store is asked."""
    version = draft_version(model=model, now=now, **fields)
    after = {"engine": version.engine, "source": version.source, "served_name": version.served_name}
    with transaction.atomic():
        save_checked(version)
        record_change(actor=actor, action="version.created", subject=version, now=now, after=after)
    return version


def draft_version(*, model: Model, now: datetime, **fields: Any) -> ModelVersion:
    """One that is checked and not saved, so that it can be asked what it needs and where it would fit.

    `fields` are those of a version, as in models.py, and `weight_index`; `weight_bytes` given wins over the index's
    sum. What an object store holds is read unless its digest is given as `revision`. With `fetch` adapters of the hub
    are pinned, too.
    """
    is_fetched = bool(fields.pop("fetch", False))
    given = _with_what_is_stored(fields)
    index = given.pop("weight_index", None) or {}
    given["weight_bytes"] = given.get("weight_bytes") or total_of_index(index)
    given["engine_args"] = checked_engine_args(given["engine"], given.get("engine_args") or {})
    adapters = given.get("lora_adapters") or []
    given["lora_adapters"] = pinned_adapters(adapters, engine_args=given["engine_args"], is_fetched=is_fetched)
    version = ModelVersion(model=model, created_at=now, **given)
    _check_shape(version)
    return version


def _with_what_is_stored(fields: dict[str, Any]) -> dict[str, Any]:
    """A version of a store's is of what lies there now, whatever comes to lie there later. What was given wins."""
    stored = checked_source(fields["source"])
    if stored is None:
        return dict(fields)
    given = fields | {"source": str(stored)}
    if not given.get("revision"):
        read = stored_facts(stored).pinned
        read = {name: value for name, value in read.items() if name != "weight_bytes" or "weight_index" not in given}
        return read | {name: value for name, value in given.items() if name != "revision"}
    if not is_digest(given["revision"]):
        text = "of an object store it is the digest of what lies there: leave it out, and it is read"
        raise InvalidInputError(text, fields={"revision": text})
    return given


def checked_engine_args(engine: str, engine_args: dict[str, Any]) -> dict[str, Any]:
    """Refused here, with the reason, is better than by an engine that does not start."""
    if not isinstance(engine_args, dict):
        raise InvalidInputError("engine_args is an object", fields={"engine_args": "must be an object"})
    problem = problem_of_engine_args(engine, engine_args)
    if problem and engine in Engine.values:
        raise InvalidInputError(f"engine_args: {problem}", fields={"engine_args": problem})
    return engine_args


def _check_shape(version: ModelVersion) -> None:
    """A config.json that cannot be read would leave its memory unknown without anybody being told."""
    try:
        facts = facts_of(registered(version))
    except ConfigError as error:
        raise InvalidInputError(str(error), fields={"config": str(error)}) from error
    width = version.engine_args.get("tensor_parallel_size")
    if width and version.engine == Engine.VLLM and (problem := problem_of_width(registered(version), width)):
        raise InvalidInputError(f"engine_args: {problem}", fields={"engine_args": problem})
    longest = facts.model.max_context_tokens if facts else None
    if longest and version.max_context_tokens and version.max_context_tokens > longest:
        text = f"the model's own limit is {longest} tokens"
        raise InvalidInputError(text, fields={"max_context_tokens": text})


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
    source = str(checked_source(source) or source)
    # A store is asked before the row is locked.
    revision = version.revision if source == version.source else _revision_of(source, version.revision)
    lock_row(version)
    before = {"engine": version.engine, "source": version.source}
    version.source, version.revision = source, revision
    version.engine = engine
    version.engine_args = checked_engine_args(engine, engine_args)
    version.max_context_tokens = max_context_tokens
    save_checked(version)
    after = {"engine": engine, "source": source}
    record_change(actor=actor, action="version.engine_changed", subject=version, now=now, before=before, after=after)
    enqueue_on_commit("placement.reconcile")
    enqueue_on_commit("routing.publish")
    return version


def _revision_of(source: str, revision: str) -> str:
    """Of a store what lies there now; a digest means nothing anywhere else."""
    stored = checked_source(source)
    if stored is not None:
        return stored_facts(stored).revision
    return "" if is_digest(revision) else revision


@transaction.atomic
def describe_version(
    *, actor: Actor, version: ModelVersion, now: datetime, licence: str | None = None, tags: list[str] | None = None
) -> ModelVersion:
    """What is said about it and changes no engine; None leaves it as it is."""
    lock_row(version)
    before = {"licence": version.licence, "tags": version.tags}
    version.licence = version.licence if licence is None else licence
    version.tags = version.tags if tags is None else tags
    save_checked(version)
    after = {"licence": version.licence, "tags": version.tags}
    record_change(actor=actor, action="version.described", subject=version, now=now, before=before, after=after)
    return version


@transaction.atomic
def delete_version(*, actor: Actor, version: ModelVersion, now: datetime) -> None:
    """Only one that nothing has run: what was used and charged keeps its name."""
    if version.prices.exists():
        raise ConflictError("it has a price, so that records may name it")
    _delete(actor, version, "version.deleted", now)


@transaction.atomic
def delete_model(*, actor: Actor, model: Model, now: datetime) -> None:
    if model.prices.exists():
        raise ConflictError("it has a price, so that records may name it")
    _delete(actor, model, "model.deleted", now)


def _delete(actor: Actor, row: Model | ModelVersion, action: str, now: datetime) -> None:
    record_change(actor=actor, action=action, subject=row, now=now)
    try:
        row.delete()
    except (ProtectedError, RestrictedError) as error:
        users = sorted({each._meta.verbose_name for each in _users_of(error)})  # noqa: SLF001 - Django's documented API
        raise ConflictError(f"it is used by: {', '.join(map(str, users))}") from error


def _users_of(error: ProtectedError | RestrictedError) -> set[Any]:
    return error.protected_objects if isinstance(error, ProtectedError) else error.restricted_objects
