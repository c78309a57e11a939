from uuid import UUID

from django.db.models import Count, Q, QuerySet

from apps.common.errors import NotFoundError
from apps.common.ids import read_uuid
from apps.deployments.models import Deployment, NodeDesired, Replica, ReplicaEvent, ReplicaState


def list_deployments() -> QuerySet[Deployment]:
    """With `ready_count` and the replicas at hand."""
    ready = Count("replicas", filter=Q(replicas__state=ReplicaState.READY, replicas__is_draining=False))
    return (
        Deployment.objects.select_related("version__model")
        .prefetch_related("replicas__node")
        .annotate(ready_count=ready)
    )


def get_deployment(deployment_id: UUID) -> Deployment:
    deployment = list_deployments().filter(pk=deployment_id).first()
    if deployment is None:
        raise NotFoundError("no such deployment")
    return deployment


def list_replicas(*, deployment_id: UUID | None = None, node_id: UUID | None = None) -> QuerySet[Replica]:
    replicas = Replica.objects.select_related("deployment__version__model", "node")
    if deployment_id is not None:
        replicas = replicas.filter(deployment_id=deployment_id)
    return replicas if node_id is None else replicas.filter(node_id=node_id)


def get_replica(replica_id: UUID) -> Replica:
    replica = list_replicas().filter(pk=replica_id).first()
    if replica is None:
        raise NotFoundError("no such replica")
    return replica


def list_events(replica_id: UUID, *, limit: int = 3) -> list[ReplicaEvent]:
    return list(ReplicaEvent.objects.filter(replica_id=replica_id)[:limit])


def list_desired_bodies(node_ids: list[UUID]) -> dict[UUID, tuple[int, bytes]]:
    """Generation and contracts.DesiredState as JSON, by node."""
    rows = NodeDesired.objects.filter(node_id__in=node_ids).values_list("node_id", "generation", "body")
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
