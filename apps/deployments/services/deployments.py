from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import SYSTEM, Actor
from apps.common.errors import ConflictError, InvalidInputError
from apps.common.saving import lock_row, save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.deployments.models import Deployment, DrainReason, Replica, ReplicaState
from apps.deployments.policies.requirements import read_requirements
from apps.deployments.services.revisions import current_revision
from apps.fleet.services.nodes import RECONCILE
from apps.registry.models import Engine, ModelVersion
from apps.registry.policies.needs import problem_of_width
from apps.registry.selectors import registered


@dataclass(frozen=True, kw_only=True)
class Change:
    """What of a deployment may be changed; None leaves it as it is."""

    version: ModelVersion | None = None
    replica_count: int | None = None
    max_running_requests: int | None = None
    requirements: dict[str, Any] | None = None
    keeps_asleep: bool | None = None
    max_surge: int | None = None
    max_unavailable: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@transaction.atomic
def create_deployment(
    *,
    actor: Actor,
    name: str,
    version: ModelVersion,
    now: datetime,
    replica_count: int = 1,
    max_running_requests: int = 64,
    requirements: dict[str, Any] | None = None,
    **pace: Any,
) -> Deployment:
    """`pace` are max_surge, max_unavailable and keeps_asleep, as in models.py."""
    deployment = Deployment(
        name=name,
        version=version,
        replica_count=replica_count,
        max_running_requests=max_running_requests,
        requirements=checked_requirements(requirements or {}, version),
        created_at=now,
        **pace,
    )
    _check_pace(deployment.max_surge, deployment.max_unavailable)
    save_checked(deployment)
    current_revision(deployment, now=now)
    after = {"version": str(version), "replica_count": replica_count, "requirements": deployment.requirements}
    record_change(actor=actor, action="deployment.created", subject=deployment, now=now, after=after)
    _deployments_changed()
    return deployment


def checked_requirements(content: dict[str, Any], version: ModelVersion) -> dict[str, Any]:
    """An engine that cannot divide its model so would not start."""
    try:
        width = read_requirements(content).tensor_parallel
    except ValueError as error:
        raise InvalidInputError(f"requirements: {error}", fields={"requirements": str(error)}) from error
    if width and version.engine == Engine.VLLM and (problem := problem_of_width(registered(version), width)):
        raise InvalidInputError(f"requirements: {problem}", fields={"requirements": problem})
    return content


def scale_deployment(*, actor: Actor, deployment: Deployment, replica_count: int, now: datetime) -> Deployment:
    return change_deployment(actor=actor, deployment=deployment, change=Change(replica_count=replica_count), now=now)


@transaction.atomic
def change_deployment(*, actor: Actor, deployment: Deployment, change: Change, now: datetime) -> Deployment:
    """What makes another revision is rolled out. Scaling by hand takes the target from an autoscaler."""
    lock_row(deployment)
    wanted = change.as_dict()
    if "requirements" in wanted:
        checked_requirements(wanted["requirements"], change.version or deployment.version)
    _check_version(deployment, change.version)
    _check_pace(
        wanted.get("max_surge", deployment.max_surge), wanted.get("max_unavailable", deployment.max_unavailable)
    )
    before = {name: _shown(getattr(deployment, name)) for name in wanted}
    for name, value in wanted.items():
        setattr(deployment, name, value)
    if "replica_count" in wanted:
        deployment.autoscaled_count = None
    save_checked(deployment)
    current_revision(deployment, now=now)
    action = "deployment.scaled" if list(wanted) == ["replica_count"] else "deployment.changed"
    after = {name: _shown(value) for name, value in wanted.items()}
    record_change(actor=actor, action=action, subject=deployment, now=now, before=before, after=after)
    _deployments_changed()
    return deployment


def _check_version(deployment: Deployment, version: ModelVersion | None) -> None:
    if version is not None and version.model_id != deployment.version.model_id:
        text = f"it serves {deployment.version.model.name}, and that is a version of {version.model.name}"
        raise InvalidInputError(text, fields={"version_id": text})


def _check_pace(max_surge: int, max_unavailable: int) -> None:
    if max_surge == max_unavailable == 0:
        text = "a rollout needs room to move: max_surge or max_unavailable is above 0"
        raise InvalidInputError(text, fields={"max_surge": text, "max_unavailable": text})


def _shown(value: object) -> object:
    return str(value) if isinstance(value, ModelVersion) else value


@transaction.atomic
def set_autoscaled_count(*, deployment_id: UUID, replica_count: int | None, reason: str, now: datetime) -> None:
    """Where an autoscaler sets its target, and with None gives it back to what people set."""
    deployment = Deployment.objects.select_for_update().get(pk=deployment_id)
    if deployment.autoscaled_count == replica_count:
        return
    before, deployment.autoscaled_count = deployment.autoscaled_count, replica_count
    save_checked(deployment)
    after = {"autoscaled_count": replica_count, "reason": reason}
    record_change(
        actor=SYSTEM,
        action="deployment.autoscaled",
        subject=deployment,
        now=now,
        before={"autoscaled_count": before},
        after=after,
    )
    _deployments_changed()


@transaction.atomic
def delete_deployment(*, actor: Actor, deployment: Deployment, now: datetime) -> None:
    """Only once it has no replicas any more: what still runs is never forgotten."""
    lock_row(deployment)
    if deployment.wanted_count or Replica.objects.filter(deployment=deployment).exists():
        raise ConflictError("scale it to 0 first, with keeps_asleep off, and wait until its replicas have stopped")
    record_change(actor=actor, action="deployment.deleted", subject=deployment, now=now)
    deployment.delete()
    _deployments_changed()


@transaction.atomic
def restart_replica(*, actor: Actor, replica: Replica, now: datetime) -> None:
    """A fresh process, once; it finishes what it has first. Its node makes it so when it next hears of it."""
    lock_row(replica)
    if replica.node_id is None:
        raise ConflictError("this replica is not on a node yet")
    replica.incarnation += 1
    replica.is_broken, replica.broken_runs = False, 0
    replica.has_given_up = replica.has_given_up and not replica.is_on_several
    replica.save(update_fields=["incarnation", "is_broken", "broken_runs", "has_given_up"])
    record_change(actor=actor, action="replica.restart_asked", subject=replica, now=now)
    _deployments_changed()


@transaction.atomic
def drain_replica(*, actor: Actor, replica: Replica, now: datetime) -> None:
    """It finishes what it has and goes; its deployment gets another one in its place."""
    lock_row(replica)
    if not replica.is_draining:
        replica.is_draining, replica.drain_reason = True, DrainReason.ASKED
        replica.save(update_fields=["is_draining", "drain_reason"])
        record_change(actor=actor, action="replica.drain_asked", subject=replica, now=now)
        _deployments_changed()


@transaction.atomic
def cancel_drain(*, actor: Actor, replica: Replica, now: datetime) -> None:
    """It serves on; what was to take its place goes. One whose engine is stopping already starts again."""
    lock_row(replica)
    if replica.drain_reason != DrainReason.ASKED or replica.state == ReplicaState.STOPPED:
        raise ConflictError("nobody has asked for this drain, or it is over")
    replica.is_draining, replica.drain_reason = False, ""
    replica.save(update_fields=["is_draining", "drain_reason"])
    record_change(actor=actor, action="replica.drain_cancelled", subject=replica, now=now)
    _deployments_changed()


def _deployments_changed() -> None:
    enqueue_on_commit(RECONCILE)
    enqueue_on_commit("routing.publish")
