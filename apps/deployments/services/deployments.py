from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import ConflictError, InvalidInputError
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit, queue_of
from apps.deployments.models import Deployment, Replica
from apps.deployments.policies.requirements import read_requirements
from apps.fleet.services.nodes import RECONCILE
from apps.registry.models import ModelVersion

# A task of the agent.
RESTART_REPLICA = "agent.restart_replica"


@dataclass(frozen=True, kw_only=True)
class Change:
    """What of a deployment may be changed; None leaves it as it is."""

    replica_count: int | None = None
    max_running_requests: int | None = None
    requirements: dict[str, Any] | None = None

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
) -> Deployment:
    deployment = Deployment(
        name=name,
        version=version,
        replica_count=replica_count,
        max_running_requests=max_running_requests,
        requirements=checked_requirements(requirements or {}),
        created_at=now,
    )
    save_checked(deployment)
    after = {"version": str(version), "replica_count": replica_count, "requirements": deployment.requirements}
    record_change(actor=actor, action="deployment.created", subject=deployment, now=now, after=after)
    _deployments_changed()
    return deployment


def checked_requirements(content: dict[str, Any]) -> dict[str, Any]:
    try:
        read_requirements(content)
    except ValueError as error:
        raise InvalidInputError(f"requirements: {error}", fields={"requirements": str(error)}) from error
    return content


def scale_deployment(*, actor: Actor, deployment: Deployment, replica_count: int, now: datetime) -> Deployment:
    return change_deployment(actor=actor, deployment=deployment, change=Change(replica_count=replica_count), now=now)


@transaction.atomic
def change_deployment(*, actor: Actor, deployment: Deployment, change: Change, now: datetime) -> Deployment:
    """New requirements hold for replicas that are placed from now on; those that run stay where they are."""
    wanted = change.as_dict()
    if "requirements" in wanted:
        checked_requirements(wanted["requirements"])
    before = {name: getattr(deployment, name) for name in wanted}
    for name, value in wanted.items():
        setattr(deployment, name, value)
    save_checked(deployment)
    action = "deployment.scaled" if list(wanted) == ["replica_count"] else "deployment.changed"
    record_change(actor=actor, action=action, subject=deployment, now=now, before=before, after=wanted)
    _deployments_changed()
    return deployment


@transaction.atomic
def delete_deployment(*, actor: Actor, deployment: Deployment, now: datetime) -> None:
    """Only once it has no replicas any more: what still runs is never forgotten."""
    if deployment.replica_count or Replica.objects.filter(deployment=deployment).exists():
        raise ConflictError("scale it to 0 first, and wait until its replicas have stopped")
    record_change(actor=actor, action="deployment.deleted", subject=deployment, now=now)
    deployment.delete()
    _deployments_changed()


@transaction.atomic
def restart_replica(*, actor: Actor, replica: Replica, now: datetime) -> None:
    """Asks the agent for a fresh process; what becomes of it is seen in the replica's events."""
    if replica.node_id is None:
        raise ConflictError("this replica is not on a node yet")
    record_change(actor=actor, action="replica.restart_asked", subject=replica, now=now)
    enqueue_on_commit(RESTART_REPLICA, str(replica.pk), queue=queue_of(replica.node_id))


@transaction.atomic
def drain_replica(*, actor: Actor, replica: Replica, now: datetime) -> None:
    """It finishes what it has and goes; its deployment gets another one in its place."""
    if not replica.is_draining:
        replica.is_draining = True
        replica.save(update_fields=["is_draining"])
        record_change(actor=actor, action="replica.drain_asked", subject=replica, now=now)
        _deployments_changed()


def _deployments_changed() -> None:
    enqueue_on_commit(RECONCILE)
    enqueue_on_commit("routing.publish")
