"""Replica rows: as many as deployments ask for, and each in the state that its agent reports."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from apps.common.ids import read_uuid
from apps.common.tasks_by_name import enqueue_on_commit
from apps.deployments.models import Deployment, DrainReason, Replica, ReplicaState, Revision
from apps.deployments.policies.lifecycle import alarm_of, may_follow
from apps.deployments.policies.parts import whole_state
from apps.deployments.policies.replicas import ReplicaPlan, ReplicaView, plan_replicas
from apps.deployments.selectors import list_deployments, pace_of
from apps.deployments.services.measurements import record_measurement
from apps.deployments.services.parts import MAY_BE_ON_SEVERAL
from apps.deployments.services.revisions import current_revision
from apps.deployments.services.states import change_state, note
from apps.fleet.models import Node, NodeState
from apps.fleet.services.nodes import RECONCILE
from workers.contracts.telemetry import ReplicaReport

DETAIL_CHARACTERS = 2000
_WENT_WRONG = (ReplicaState.FAILED, ReplicaState.DEGRADED)


def ensure_replicas(*, now: datetime, wakeable: Collection[UUID] = ()) -> None:
    """As many replica rows as each deployment asks for, of its newest revision; others drain, stopped ones go.

    `wakeable` are sleeping ones whose places still hold them.
    """
    known_nodes = {str(pk) for pk in Node.objects.values_list("pk", flat=True)}
    for deployment in list_deployments():
        current = current_revision(deployment, now=now)
        replicas = list(deployment.replicas.all())
        plan = plan_replicas(
            wanted=deployment.wanted_count,
            replicas=[_view_of(replica, current, wakeable, known_nodes) for replica in replicas],
            pace=pace_of(deployment, current, replicas),
            keeps_asleep=deployment.keeps_asleep,
        )
        _carry_out(deployment, current, plan, now)


def _view_of(
    replica: Replica, current: Revision, wakeable: Collection[UUID], known_nodes: Collection[str]
) -> ReplicaView:
    told = [replica.parts.get(node_id, {}).get("state", "") for node_id in replica.node_ids if node_id in known_nodes]
    return ReplicaView(
        replica_id=replica.pk,
        state=whole_state(replica.state, told if replica.is_on_several else []),
        is_draining=replica.is_draining,
        has_node=replica.node_id is not None,
        is_lost=replica.node is not None and replica.node.is_lost,
        is_current=replica.revision_id == current.pk,
        is_asleep=replica.is_asleep,
        can_wake=replica.pk in wakeable,
    )


def _carry_out(deployment: Deployment, current: Revision, plan: ReplicaPlan, now: datetime) -> None:
    rows = {replica.pk: replica for replica in deployment.replicas.all()}
    like = [rows[pk].revision for pk in plan.create_like]
    for revision in [*like, *[current] * plan.create_count]:
        Replica.objects.create(deployment=deployment, revision=revision, created_at=now, state_changed_at=now)
    for reason, going in ((DrainReason.SURPLUS, plan.drain), (DrainReason.ROLLOUT, plan.retire)):
        _set(going, is_draining=True, is_asleep=False, drain_reason=reason)
    _set(plan.sleep, is_asleep=True)
    _set(plan.wake, is_asleep=False)
    if plan.remove:
        Replica.objects.filter(pk__in=plan.remove).delete()


def _set(ids: Sequence[UUID], **flags: Any) -> None:
    if ids:
        Replica.objects.filter(pk__in=ids).update(**flags)


def empty_drained_nodes(*, now: datetime) -> None:
    """What is on a node that is drained goes; its deployments get replicas elsewhere. Taken back, what is left stays.

    The rows stay, and with them the memory they hold, until the node says that their engines have stopped.
    """
    drained = {str(pk) for pk in Node.objects.filter(is_draining=True).values_list("pk", flat=True)}
    staying = Replica.objects.filter(Q(node__is_draining=True) | MAY_BE_ON_SEVERAL, is_draining=False)
    for replica in (each for each in staying if drained & {str(each.node_id), *each.node_ids}):
        replica.is_draining, replica.drain_reason = True, DrainReason.NODE
        replica.save(update_fields=["is_draining", "drain_reason"])
        note(replica, "gives up this place: its node is being drained", now)
    kept = Replica.objects.filter(is_draining=True, drain_reason=DrainReason.NODE, node__is_draining=False)
    kept = kept.exclude(state=ReplicaState.STOPPED)
    for replica in (each for each in kept if not drained & set(each.node_ids)):
        replica.is_draining, replica.drain_reason = False, ""
        replica.save(update_fields=["is_draining", "drain_reason"])
        note(replica, "keeps this place: its node is drained no more", now)


def mark_unreachable_replicas(*, now: datetime) -> None:
    """What a silent node runs is unknown, which is neither running nor stopped."""
    known = Replica.objects.filter(node__state=NodeState.OFFLINE).exclude(state=ReplicaState.UNKNOWN)
    for replica in known:
        change_state(replica, ReplicaState.UNKNOWN, "the node is silent", now)


def raise_alarms(*, now: datetime) -> None:
    """Says of each replica that has been in its state for too long what is the matter; takes it back when it moves."""
    for replica in Replica.objects.all():
        alarm = alarm_of(replica.state, replica.state_changed_at, now, has_given_up=replica.has_given_up)
        if replica.alarm != alarm:
            replica.alarm = alarm
            replica.save(update_fields=["alarm"])
            if alarm:
                note(replica, _with_reason(alarm, replica.detail), now)


def _with_reason(alarm: str, detail: str) -> str:
    """As it is now: what an alarm says stands as long as it does, and why may change."""
    return f"{alarm}: {detail}" if detail else alarm


@transaction.atomic
def record_replica_reports(*, node_id: UUID, reports: Sequence[ReplicaReport], now: datetime) -> None:
    """Stores what differs. A report about a replica that is not this node's is ignored: it is being stopped."""
    held = Replica.objects.select_for_update(of=("self",)).select_related("revision")
    rows = {str(row.pk): row for row in held.filter(node_id=node_id)}
    followed = [found for each in reports if each.follows and (found := read_uuid(each.replica_id))]
    if followed:
        rows |= {str(row.pk): row for row in held.filter(pk__in=followed) if str(node_id) in row.node_ids}
    for report in reports:
        row = rows.get(report.replica_id)
        if row is None or report.state not in ReplicaState.values:
            continue
        if row.is_on_several:
            _record_part(row, str(node_id), report, now)
        if row.node_id == node_id:
            _record_report(row, report, now)


def _record_part(row: Replica, node_id: str, report: ReplicaReport, now: datetime) -> None:
    """What its node says of its part; the loop makes the whole of all of them."""
    before = row.parts.get(node_id, {})
    rank = row.node_ids.index(node_id)
    told = {
        "rank": rank,
        "node_name": before.get("node_name") or Node.objects.values_list("name", flat=True).get(pk=node_id),
        "state": report.state,
        "detail": report.detail.replace("\x00", "")[:DETAIL_CHARACTERS],
        "spec_hash": report.spec_hash[:64],
        "is_prepared": report.is_prepared,
        "restarts": report.restarts,
    }
    if told == before:
        return
    row.parts = row.parts | {node_id: told}
    row.save(update_fields=["parts"])
    has_turned = (told["state"], told["is_prepared"]) != (before.get("state"), before.get("is_prepared"))
    if has_turned or told["spec_hash"] != before.get("spec_hash"):
        enqueue_on_commit(RECONCILE)
    if has_turned and str(row.node_id) != node_id:
        words = f"part {rank + 1} of {len(row.node_ids)}: {told['state']} {told['detail']}".rstrip()
        note(row, words, now, log_tail=_kept_tail(report))


def _record_report(row: Replica, report: ReplicaReport, now: datetime) -> None:
    row.spec_hash, row.restarts = report.spec_hash[:64], report.restarts
    row.has_given_up = row.has_given_up if row.is_on_several else report.has_given_up
    row.measured_bytes = report.memory_bytes or row.measured_bytes
    row.progress_ratio = report.progress_ratio
    record_measurement(replica=row, report=report, now=now)
    row.save(update_fields=["spec_hash", "restarts", "has_given_up", "measured_bytes", "progress_ratio"])
    if row.is_on_several and row.has_given_up and not row.is_draining:
        return  # that its parts wait says less than why
    detail = report.detail.replace("\x00", "")[:DETAIL_CHARACTERS]
    if row.state != report.state:
        if may_follow(row.state, report.state):
            change_state(row, report.state, detail, now, log_tail=_kept_tail(report))
    elif row.detail != detail:
        row.detail = detail
        row.save(update_fields=["detail"])


def _kept_tail(report: ReplicaReport) -> list[str]:
    """Of what went wrong, for when the log is gone with its node."""
    return [line.replace("\x00", "") for line in report.log_tail] if report.state in _WENT_WRONG else []
