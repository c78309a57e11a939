"""Replica rows: as many as deployments ask for, and each in the state that its agent reports."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction

from apps.common import live
from apps.common.tasks_by_name import enqueue_on_commit
from apps.deployments.models import Deployment, Replica, ReplicaEvent, ReplicaState
from apps.deployments.policies.lifecycle import alarm_of, may_follow
from apps.deployments.policies.replicas import ReplicaPlan, ReplicaView, plan_replicas
from apps.fleet.models import NodeState
from apps.fleet.services.nodes import RECONCILE
from workers.contracts.telemetry import ReplicaReport

KEPT_EVENTS = 50
DETAIL_CHARACTERS = 2000


def ensure_replicas(*, now: datetime) -> None:
    """As many replica rows as each deployment asks for; surplus ones drain, stopped ones go."""
    for deployment in Deployment.objects.prefetch_related("replicas__node"):
        replicas = list(deployment.replicas.all())
        plan = plan_replicas(wanted=deployment.replica_count, replicas=[_view_of(replica) for replica in replicas])
        _carry_out(deployment, plan, now)


def _view_of(replica: Replica) -> ReplicaView:
    return ReplicaView(
        replica_id=replica.pk,
        state=replica.state,
        is_draining=replica.is_draining,
        has_node=replica.node_id is not None,
        is_lost=replica.node is not None and replica.node.is_lost,
    )


def _carry_out(deployment: Deployment, plan: ReplicaPlan, now: datetime) -> None:
    for _ in range(plan.create_count):
        Replica.objects.create(deployment=deployment, created_at=now, state_changed_at=now)
    if plan.drain:
        Replica.objects.filter(pk__in=plan.drain).update(is_draining=True)
    if plan.remove:
        Replica.objects.filter(pk__in=plan.remove).delete()


def empty_drained_nodes(*, now: datetime) -> None:
    """What is on a node that is drained goes; its deployments get replicas elsewhere.

    The rows stay, and with them the memory they hold, until the node says that their engines have stopped.
    """
    for replica in Replica.objects.filter(is_draining=False, node__is_draining=True):
        replica.is_draining = True
        replica.save(update_fields=["is_draining"])
        _note(replica, "gives up this place: its node is being drained", now)


def mark_unreachable_replicas(*, now: datetime) -> None:
    """What a silent node runs is unknown, which is neither running nor stopped."""
    known = Replica.objects.filter(node__state=NodeState.OFFLINE).exclude(state=ReplicaState.UNKNOWN)
    for replica in known:
        change_state(replica, ReplicaState.UNKNOWN, "the node is silent", now)


def raise_alarms(*, now: datetime) -> None:
    """Says of each replica that has been in its state for too long what is the matter; takes it back when it moves."""
    for replica in Replica.objects.all():
        alarm = alarm_of(replica.state, replica.state_changed_at, now, has_given_up=replica.has_given_up)
        if replica.alarm.partition(" (for ")[0] != alarm.partition(" (for ")[0]:
            replica.alarm = alarm
            replica.save(update_fields=["alarm"])
            if alarm:
                _note(replica, alarm, now)


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
    row.has_given_up = report.has_given_up
    row.measured_bytes = report.memory_bytes or row.measured_bytes
    row.save(update_fields=["spec_hash", "restarts", "has_given_up", "measured_bytes"])
    detail = report.detail.replace("\x00", "")[:DETAIL_CHARACTERS]
    if row.state != report.state:
        if may_follow(row.state, report.state):
            change_state(row, report.state, detail, now)
    elif row.detail != detail:
        row.detail = detail
        row.save(update_fields=["detail"])


def change_state(replica: Replica, state: str, detail: str, now: datetime) -> None:
    replica.state, replica.detail, replica.state_changed_at, replica.alarm = state, detail, now, ""
    replica.save(update_fields=["state", "detail", "state_changed_at", "alarm"])
    _note(replica, detail, now)
    payload = {"replica_id": str(replica.pk), "deployment_id": str(replica.deployment_id), "state": state}
    live.publish_on_commit(live.DEPLOYMENTS, payload)
    if replica.is_draining:
        enqueue_on_commit(RECONCILE)


def _note(replica: Replica, detail: str, now: datetime) -> None:
    ReplicaEvent.objects.create(replica=replica, at=now, state=replica.state, detail=detail)
    old = ReplicaEvent.objects.filter(replica=replica)[KEPT_EVENTS:].values_list("pk", flat=True)
    ReplicaEvent.objects.filter(pk__in=list(old)).delete()
