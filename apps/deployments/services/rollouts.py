"""The way from one revision to the next: held up, taken further, taken back."""

from datetime import datetime

from django.db import transaction

from apps.audit.services import record_change
from apps.common import live
from apps.common.actors import Actor
from apps.common.errors import ConflictError, NotFoundError
from apps.common.saving import lock_row, save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.deployments.models import Deployment, Revision
from apps.deployments.services.revisions import current_revision, process_of
from apps.fleet.services.nodes import RECONCILE

_CONTENT = ("version_id", "max_running_requests", "requirements")


@transaction.atomic
def pause_rollout(*, actor: Actor, deployment: Deployment, is_paused: bool, now: datetime) -> Deployment:
    """While paused, replicas stay what they are; one that is missing is made like those of before."""
    lock_row(deployment)
    if deployment.is_rollout_paused != is_paused:
        deployment.is_rollout_paused = is_paused
        deployment.save(update_fields=["is_rollout_paused"])
        action = "rollout.paused" if is_paused else "rollout.resumed"
        record_change(actor=actor, action=action, subject=deployment, now=now)
        _rollout_changed(deployment)
    return deployment


@transaction.atomic
def undo_rollout(*, actor: Actor, deployment: Deployment, now: datetime, number: int | None = None) -> Deployment:
    """Back to the revision before the newest, or to that `number`; at the same pace, and paused no more."""
    lock_row(deployment)
    newest = current_revision(deployment, now=now)
    target = _revision_to(deployment, newest, number)
    if process_of(target.version) != target.process:
        raise ConflictError(f"version {target.version} is not what it was at revision {target.number}")
    before = {name: str(getattr(deployment, name)) for name in _CONTENT}
    deployment.version = target.version
    deployment.max_running_requests, deployment.requirements = target.max_running_requests, target.requirements
    deployment.is_rollout_paused = False
    save_checked(deployment)
    after = {name: str(getattr(deployment, name)) for name in _CONTENT} | {"revision": target.number}
    record_change(actor=actor, action="rollout.undone", subject=deployment, now=now, before=before, after=after)
    current_revision(deployment, now=now)
    _rollout_changed(deployment)
    return deployment


def _revision_to(deployment: Deployment, newest: Revision, number: int | None) -> Revision:
    others = deployment.revisions.select_related("version__model").exclude(pk=newest.pk)
    target = others.first() if number is None else others.filter(number=number).first()
    if target is None:
        raise NotFoundError("there is no other revision" if number is None else f"there is no other revision {number}")
    return target


def note_generation(revision: Revision, generation: int) -> None:
    """The first snapshot that names the revision's version."""
    revision.routed_generation = generation
    revision.save(update_fields=["routed_generation"])


def mark_routed(revision: Revision) -> None:
    """Every gateway knows the revision's version."""
    revision.is_routed = True
    revision.save(update_fields=["is_routed"])
    enqueue_on_commit(RECONCILE)


def _rollout_changed(deployment: Deployment) -> None:
    live.publish_on_commit(live.DEPLOYMENTS, {"deployment_id": str(deployment.pk)})
    enqueue_on_commit(RECONCILE)
    enqueue_on_commit("routing.publish")
