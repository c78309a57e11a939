from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from django.db import transaction

from apps.audit.services import record_change
from apps.common import live
from apps.common.actors import Actor
from apps.common.errors import ConflictError
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit, queue_of
from apps.common.valkey import wake_links_on_commit
from apps.deployments.models import Deployment, NodeDesired, Replica, ReplicaEvent, ReplicaState
from apps.deployments.policies import ReplicaPlan, ReplicaView, plan_replicas, spec_hash
from apps.fleet.models import Node, NodeState
from apps.fleet.services import RECONCILE
from apps.registry.models import ModelVersion
from workers.contracts.desired import DesiredState, ReplicaSpec
from workers.contracts.telemetry import ReplicaReport

# Tasks of the agent.
RECONCILE_NOW = "agent.reconcile_now"
RESTART_REPLICA = "agent.restart_replica"
KEPT_EVENTS = 50
DETAIL_CHARACTERS = 2000


@transaction.atomic
def create_deployment(
    *,
    actor: Actor,
    name: str,
    version: ModelVersion,
    now: datetime,
    replica_count: int = 1,
    max_running_requests: int = 64,
) -> Deployment:
    deployment = Deployment(
        name=name,
        version=version,
        replica_count=replica_count,
        max_running_requests=max_running_requests,
        created_at=now,
    )
    save_checked(deployment)
    after = {"version": str(version), "replica_count": replica_count}
    record_change(actor=actor, action="deployment.created", subject=deployment, now=now, after=after)
    _deployments_changed()
    return deployment


@transaction.atomic
def scale_deployment(*, actor: Actor, deployment: Deployment, replica_count: int, now: datetime) -> Deployment:
    before = deployment.replica_count
    deployment.replica_count = replica_count
    save_checked(deployment)
    record_change(
        actor=actor,
        action="deployment.scaled",
        subject=deployment,
        now=now,
        before={"replica_count": before},
        after={"replica_count": replica_count},
    )
    _deployments_changed()
    return deployment


@transaction.atomic
def restart_replica(*, actor: Actor, replica: Replica, now: datetime) -> None:
    """Asks the agent for a fresh process; what becomes of it is seen in the replica's events."""
    if replica.node_id is None:
        raise ConflictError("this replica is not on a node yet")
    record_change(actor=actor, action="replica.restart_asked", subject=replica, now=now)
    enqueue_on_commit(RESTART_REPLICA, str(replica.pk), queue=queue_of(replica.node_id))


def _deployments_changed() -> None:
    enqueue_on_commit(RECONCILE)
    enqueue_on_commit("routing.publish")


def ensure_replicas(*, now: datetime) -> None:
    """As many replica rows as each deployment asks for; surplus ones drain, stopped ones go."""
    for deployment in Deployment.objects.prefetch_related("replicas"):
        replicas = list(deployment.replicas.all())
        plan = plan_replicas(wanted=deployment.replica_count, replicas=[_view_of(replica) for replica in replicas])
        _carry_out(deployment, plan, now)


def _view_of(replica: Replica) -> ReplicaView:
    return ReplicaView(
        replica_id=replica.pk,
        state=replica.state,
        is_draining=replica.is_draining,
        has_node=replica.node_id is not None,
    )


def _carry_out(deployment: Deployment, plan: ReplicaPlan, now: datetime) -> None:
    for _ in range(plan.create_count):
        Replica.objects.create(deployment=deployment, created_at=now, state_changed_at=now)
    if plan.drain:
        Replica.objects.filter(pk__in=plan.drain).update(is_draining=True)
    if plan.remove:
        Replica.objects.filter(pk__in=plan.remove).delete()


def mark_unreachable_replicas(*, now: datetime) -> None:
    """What a silent node runs is unknown, which is neither running nor stopped."""
    known = Replica.objects.filter(node__state=NodeState.OFFLINE).exclude(state=ReplicaState.UNKNOWN)
    for replica in known:
        _change_state(replica, ReplicaState.UNKNOWN, "the node is silent", now)


def write_desired_states(*, fence: int, now: datetime) -> None:
    """A new generation for each node whose replicas changed."""
    for node in Node.objects.select_related("desired"):
        _write_desired(node, fence, now)


def _write_desired(node: Node, fence: int, now: datetime) -> None:
    specs = [_spec_of(replica) for replica in _replicas_on(node)]
    content = spec_hash({"replicas": msgspec.to_builtins(specs)})
    current: NodeDesired | None = getattr(node, "desired", None)
    if current is not None and current.content_sha256 == content:
        return
    generation = current.generation + 1 if current else 1
    state = DesiredState(node_id=str(node.pk), generation=generation, fence=fence, replicas=specs)
    NodeDesired.objects.update_or_create(
        node=node,
        defaults={
            "generation": generation,
            "fence": fence,
            "content_sha256": content,
            "body": msgspec.json.encode(state).decode(),
            "written_at": now,
        },
    )
    wake_links_on_commit()
    enqueue_on_commit(RECONCILE_NOW, queue=queue_of(node.pk))


def _replicas_on(node: Node) -> list[Replica]:
    return list(Replica.objects.filter(node=node).select_related("deployment__version__model").order_by("id"))


def _spec_of(replica: Replica) -> ReplicaSpec:
    deployment, version = replica.deployment, replica.deployment.version
    assert replica.port is not None  # noqa: S101 - a database constraint: a replica with a node has a port
    process = {
        "engine": version.engine,
        "source": version.source,
        "served_name": version.served_name,
        "port": replica.port,
        "task": version.model.task,
        "max_context_tokens": version.max_context_tokens,
        "max_running_requests": deployment.max_running_requests,
        "engine_args": version.engine_args,
    }
    return ReplicaSpec(
        replica_id=str(replica.pk),
        deployment_id=str(deployment.pk),
        version_id=str(version.pk),
        spec_hash=spec_hash(process),
        is_draining=replica.is_draining,
        **process,
    )


@transaction.atomic
def record_replica_reports(*, node_id: UUID, reports: Sequence[ReplicaReport], now: datetime) -> None:
    """Stores what differs. A report about a replica that is not this node's is ignored: it is being stopped."""
    rows = {str(row.pk): row for row in Replica.objects.select_for_update().filter(node_id=node_id)}
    for report in reports:
        row = rows.get(report.replica_id)
        if row is not None and report.state in ReplicaState.values:
            _record_report(row, report, now)


def _record_report(row: Replica, report: ReplicaReport, now: datetime) -> None:
    row.spec_hash, row.restarts = report.spec_hash[:64], report.restarts
    row.save(update_fields=["spec_hash", "restarts"])
    detail = report.detail.replace("\x00", "")[:DETAIL_CHARACTERS]
    if row.state != report.state:
        _change_state(row, report.state, detail, now)
    elif row.detail != detail:
        row.detail = detail
        row.save(update_fields=["detail"])


def _change_state(replica: Replica, state: str, detail: str, now: datetime) -> None:
    replica.state, replica.detail, replica.state_changed_at = state, detail, now
    replica.save(update_fields=["state", "detail", "state_changed_at"])
    ReplicaEvent.objects.create(replica=replica, at=now, state=state, detail=detail)
    old = ReplicaEvent.objects.filter(replica=replica)[KEPT_EVENTS:].values_list("pk", flat=True)
    ReplicaEvent.objects.filter(pk__in=list(old)).delete()
    payload = {"replica_id": str(replica.pk), "deployment_id": str(replica.deployment_id), "state": state}
    live.publish_on_commit(live.DEPLOYMENTS, payload)
    if replica.is_draining:
        enqueue_on_commit(RECONCILE)
