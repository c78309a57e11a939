"""Rollouts as the pages show them: the steps of each, what was before, and how each version answers meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from apps.common.actors import Actor
from apps.console.policies.ladder import Step, ladder_of, share_of_newer
from apps.deployments.models import Deployment, Revision
from apps.deployments.policies.rollout import Rollout
from apps.deployments.selectors import get_rollout, list_deployments, list_revisions
from apps.registry.models import ModelVersion
from apps.usage.selectors.reports import scope_for
from apps.usage.selectors.served import Served, served_of

ANALYSED = timedelta(hours=1)
HISTORY = 50
_ORDER = {"stuck": 0, "paused": 1, "progressing": 2, "done": 3}


@dataclass(frozen=True, kw_only=True)
class Course:
    """`revisions` are the newest two; `newer_percent` is of the replicas that answer."""

    deployment: Deployment
    rollout: Rollout
    revisions: Sequence[Revision]
    steps: Sequence[Step]
    newer_percent: float | None


@dataclass(frozen=True, kw_only=True)
class Answered:
    """How a version's requests of the last hour went, whichever deployment answered."""

    version: ModelVersion
    is_newer: bool
    served: Served


def course_of(deployment: Deployment) -> Course:
    """Of one that list_deployments gave."""
    return _course(deployment, list(list_revisions(deployment.pk)[:2]))


def _course(deployment: Deployment, revisions: Sequence[Revision]) -> Course:
    rollout = get_rollout(deployment)
    newest = revisions[0] if revisions else None
    steps = ladder_of(rollout, is_routed=bool(newest and newest.is_routed), is_first=not revisions[1:])
    return Course(
        deployment=deployment,
        rollout=rollout,
        revisions=revisions,
        steps=steps,
        newer_percent=share_of_newer(rollout),
    )


def list_courses() -> list[Course]:
    """Those that need somebody first, then those under way; what is done is left out."""
    deployments = [each for each in list_deployments() if get_rollout(each).state != "done"]
    revisions = _newest_two([each.pk for each in deployments])
    under_way = [_course(each, revisions.get(each.pk, [])) for each in deployments]
    return sorted(under_way, key=lambda course: (_ORDER[course.rollout.state], course.deployment.name))


def _newest_two(deployment_ids: Sequence[UUID]) -> dict[UUID, list[Revision]]:
    found: dict[UUID, list[Revision]] = {}
    rows = Revision.objects.filter(deployment_id__in=deployment_ids).select_related("version__model")
    for revision in rows.order_by("deployment_id", "-number"):
        found.setdefault(revision.deployment_id, []).append(revision)
    return {deployment_id: revisions[:2] for deployment_id, revisions in found.items()}


def list_latest_revisions() -> list[Revision]:
    return list(
        Revision.objects.select_related("deployment", "version__model").order_by("-created_at", "-pk")[:HISTORY]
    )


def analyse(course: Course, *, actor: Actor, now: datetime) -> list[Answered]:
    """The newest version beside the one before."""
    versions = {revision.version_id: revision.version for revision in course.revisions}
    newest = course.revisions[0].version_id if course.revisions else None
    scopes = {pk: scope_for(actor=actor, start=now - ANALYSED, end=now, version_id=pk) for pk in versions}
    return [
        Answered(version=version, is_newer=pk == newest, served=served_of(scope=scopes[pk]))
        for pk, version in versions.items()
    ]
