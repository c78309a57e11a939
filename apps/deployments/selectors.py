from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db.models import Count, FilteredRelation, Q, QuerySet

from apps.common.errors import NotFoundError
from apps.common.ids import read_uuid
from apps.deployments.models import (
    Deployment,
    NodeDesired,
    Replica,
    ReplicaEvent,
    ReplicaState,
    Revision,
    is_on_nodes,
)
from apps.deployments.policies.replicas import Pace
from apps.deployments.policies.rollout import Course, Pool, Rollout, rollout_of
from apps.registry.models import ModelVersion
from apps.registry.policies.memory import Measured

SERVING = (
    ReplicaState.PLACED,
    ReplicaState.FETCHING,
    ReplicaState.STARTING,
    ReplicaState.WARMING,
    ReplicaState.READY,
    ReplicaState.DEGRADED,
)


def list_deployments() -> QuerySet[Deployment]:
    """With `ready_count` and the replicas at hand."""
    ready = Count("replicas", filter=Q(replicas__state=ReplicaState.READY, replicas__is_draining=False))
    return (
        Deployment.objects.select_related("version__model")
        .prefetch_related("replicas__node", "replicas__revision", "revisions")
        .annotate(ready_count=ready)
    )


def get_deployment(deployment_id: UUID) -> Deployment:
    deployment = list_deployments().filter(pk=deployment_id).first()
    if deployment is None:
        raise NotFoundError("no such deployment")
    return deployment


def list_replicas(*, deployment_id: UUID | None = None, node_id: UUID | None = None) -> QuerySet[Replica]:
    replicas = Replica.objects.select_related("deployment__version__model", "revision__version__model", "node")
    if deployment_id is not None:
        replicas = replicas.filter(deployment_id=deployment_id)
    return replicas if node_id is None else replicas.filter(is_on_nodes([node_id]))


def list_serving() -> QuerySet[Replica]:
    """Those that answer, or will: on a node, neither asleep nor on their way out."""
    return Replica.objects.filter(node__isnull=False, is_draining=False, is_asleep=False, state__in=SERVING)


def get_replica(replica_id: UUID) -> Replica:
    replica = list_replicas().filter(pk=replica_id).first()
    if replica is None:
        raise NotFoundError("no such replica")
    return replica


def list_events(replica_id: UUID, *, limit: int = 3) -> list[ReplicaEvent]:
    return list(ReplicaEvent.objects.filter(replica_id=replica_id)[:limit])


def list_newer_bodies(held: Mapping[UUID, int]) -> dict[UUID, tuple[int, bytes]]:
    """Generation and contracts.DesiredState as JSON, of the nodes in `held` that have another generation now."""
    now = NodeDesired.objects.filter(node_id__in=list(held)).values_list("node_id", "generation")
    newer = [node_id for node_id, generation in now if held[node_id] != generation]
    rows = NodeDesired.objects.filter(node_id__in=newer).values_list("node_id", "generation", "body") if newer else []
    return {node_id: (generation, body.encode()) for node_id, generation, body in rows}


def list_deployment_events(deployment_id: UUID, *, limit: int = 20) -> list[ReplicaEvent]:
    """Of all its replicas, newest first."""
    return list(ReplicaEvent.objects.filter(replica__deployment_id=deployment_id).select_related("replica")[:limit])


def name_deployments(ids: set[UUID]) -> dict[UUID, str]:
    return dict(Deployment.objects.filter(pk__in=ids).values_list("pk", "name"))


def name_replicas(ids: set[str]) -> dict[str, str]:
    """By id as text; what is no replica's id is left out."""
    known = [found for each in ids if (found := read_uuid(each))]
    replicas = Replica.objects.filter(pk__in=known).select_related("deployment", "node")
    return {str(replica.pk): _name_of(replica) for replica in replicas}


def _name_of(replica: Replica) -> str:
    where = f"{replica.node.name}:{replica.port}" if replica.node is not None else "nowhere"
    return f"{replica.deployment.name} on {where}"


def measured_of(version: ModelVersion) -> list[Measured]:
    """What its engines used on each GPU."""
    names = ("gpu_count", "gpu_model", "memory_bytes", "kv_tokens")
    return [Measured(**{name: getattr(row, name) for name in names}) for row in version.measurements.all()]


def get_rollout(deployment: Deployment) -> Rollout:
    """Of one that list_deployments gave."""
    newest = next(iter(deployment.revisions.all()), None)
    replicas = list(deployment.replicas.all())
    pace = pace_of(deployment, newest, replicas) if newest else Pace()
    courses = [_course_of(replica, newest) for replica in replicas if not replica.is_asleep]
    return rollout_of(wanted=deployment.wanted_count, replicas=courses, pace=pace)


def _course_of(replica: Replica, newest: Revision | None) -> Course:
    return Course(
        is_current=newest is None or replica.revision_id == newest.pk,
        state=replica.state,
        is_draining=replica.is_draining,
        detail=replica.detail,
        problem=replica.alarm,
    )


def pace_of(deployment: Deployment, newest: Revision, replicas: Sequence[Replica]) -> Pace:
    is_one_version = all(replica.revision.version_id == newest.version_id for replica in replicas)
    return Pace(
        max_surge=deployment.max_surge,
        max_unavailable=deployment.max_unavailable,
        is_paused=deployment.is_rollout_paused,
        may_retire=newest.is_routed or is_one_version,
    )


def list_revisions(deployment_id: UUID) -> QuerySet[Revision]:
    return Revision.objects.filter(deployment_id=deployment_id).select_related("version__model")


def list_unrouted() -> list[Revision]:
    """The newest of each deployment, where not every gateway is known to know it."""
    newest = Revision.objects.order_by("deployment_id", "-number").distinct("deployment_id")
    return [revision for revision in newest if not revision.is_routed]


def list_pools() -> list[Pool]:
    """What serves each deployment's traffic, by version; one statement, so that no replica lacks its deployment."""
    pools: dict[UUID, Pool] = {}
    serves = Q(replicas__is_draining=False, replicas__is_asleep=False)
    rows = Deployment.objects.annotate(serving=FilteredRelation("replicas", condition=serves)).order_by("name")
    for pk, version_id, serving_id, state in rows.values_list(
        "pk", "version_id", "serving__revision__version_id", "serving__state"
    ):
        ready = pools.setdefault(pk, Pool(deployment_id=pk, ready={version_id: 0})).ready
        if serving_id is not None:
            ready[serving_id] = ready.get(serving_id, 0) + (state == ReplicaState.READY)
    return list(pools.values())


def find_successor(version_id: UUID) -> Deployment | None:
    """The deployment that ran this version last, and runs another now."""
    revision = Revision.objects.filter(version_id=version_id).select_related("deployment__version").order_by("-id")
    return next((row.deployment for row in revision if row.deployment.version_id != version_id), None)


def list_all_events() -> QuerySet[ReplicaEvent]:
    return ReplicaEvent.objects.select_related("replica__deployment")
