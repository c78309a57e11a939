"""How a replica's state changes, and what is kept of that."""

from collections.abc import Sequence
from datetime import datetime

from apps.common import live
from apps.common.tasks_by_name import enqueue_on_commit
from apps.deployments.models import Replica, ReplicaEvent, ReplicaState
from apps.fleet.services.nodes import RECONCILE

KEPT_EVENTS = 50


def change_state(replica: Replica, state: str, detail: str, now: datetime, *, log_tail: Sequence[str] = ()) -> None:
    replica.state, replica.detail, replica.state_changed_at, replica.alarm = state, detail, now, ""
    replica.save(update_fields=["state", "detail", "state_changed_at", "alarm"])
    note(replica, detail, now, log_tail)
    payload = {"replica_id": str(replica.pk), "deployment_id": str(replica.deployment_id), "state": state}
    live.publish_on_commit(live.DEPLOYMENTS, payload)
    if replica.is_draining or state == ReplicaState.READY:
        enqueue_on_commit(RECONCILE)


def note(replica: Replica, detail: str, now: datetime, log_tail: Sequence[str] = ()) -> None:
    ReplicaEvent.objects.create(replica=replica, at=now, state=replica.state, detail=detail, log_tail=list(log_tail))
    old = ReplicaEvent.objects.filter(replica=replica)[KEPT_EVENTS:].values_list("pk", flat=True)
    ReplicaEvent.objects.filter(pk__in=list(old)).delete()
