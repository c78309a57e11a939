"""The loop from deployments to desired states."""

from collections.abc import Sequence
from datetime import datetime
from random import Random
from uuid import UUID

from django.conf import settings

from apps.common.services import lead
from apps.deployments.models import Replica, ReplicaState
from apps.deployments.services.desired import write_desired_states
from apps.deployments.services.parts import mend_replicas_on_several_nodes
from apps.deployments.services.replicas import (
    empty_drained_nodes,
    ensure_replicas,
    mark_unreachable_replicas,
    raise_alarms,
)
from apps.deployments.services.states import change_state
from apps.placement.policies.demand import Assignment, Demand
from apps.placement.policies.explaining import as_if_applied, explain, in_words
from apps.placement.policies.fleet import NodeView
from apps.placement.policies.planning import make_plan
from apps.placement.policies.ports import lowest_free_port
from apps.placement.services.views import accelerator_of, demand_of, has_gpus, list_node_views, wakeable_replicas

# Improving a plan is for few replicas at a time; beyond, the first plan is good enough and soon made.
IMPROVED_UP_TO = 32
ROUNDS = 200


def reconcile(*, holder: str, now: datetime) -> bool:
    """One turn; False when another process leads it."""
    with lead("placement", holder=holder) as fence:
        if fence is None:
            return False
        empty_drained_nodes(now=now)
        mend_replicas_on_several_nodes(now=now)
        ensure_replicas(now=now, wakeable=wakeable_replicas())
        mark_unreachable_replicas(now=now)
        place_pending_replicas(now=now)
        raise_alarms(now=now)
        write_desired_states(fence=fence, now=now)
    return True


def place_pending_replicas(*, now: datetime) -> None:
    pending = {row.pk: row for row in _list_pending()}
    if not pending:
        return
    nodes = list_node_views()
    gpus = has_gpus(nodes)
    demands = [demand_of(row.pk, row.deployment_id, row.revision, fleet_has_gpus=gpus) for row in pending.values()]
    rounds = ROUNDS if 1 < len(demands) <= IMPROVED_UP_TO else 0
    plan = make_plan(nodes, demands, rounds=rounds, random=Random(0))  # noqa: S311 - the same plan each time
    _take_places(plan.assignments, pending, nodes, now)
    _explain_rest(plan.unplaced, pending, as_if_applied(nodes, plan.assignments))


def _list_pending() -> list[Replica]:
    rows = Replica.objects.filter(node=None, is_draining=False)
    rows = rows.select_related("revision__version").prefetch_related("revision__version__measurements")
    return list(rows.order_by("id"))


def _take_places(
    assignments: Sequence[Assignment], pending: dict[UUID, Replica], nodes: Sequence[NodeView], now: datetime
) -> None:
    """Ports are unique over the fleet, so that two nodes may share a host."""
    taken = {port for port in Replica.objects.values_list("port", flat=True) if port is not None}
    for assignment in assignments:
        replica = pending[assignment.demand.replica_id]
        port = lowest_free_port(base=settings.ENGINE_PORT_BASE, taken=taken)
        if port is None:
            _say(replica, "no port is free")
        else:
            taken.add(port)
            _take_place(replica, assignment, port, nodes, now)


def _take_place(replica: Replica, assignment: Assignment, port: int, nodes: Sequence[NodeView], now: datetime) -> None:
    shape, lead_stage = assignment.demand.shape, assignment.stages[0]
    replica.node_id, replica.port = assignment.node_id, port
    replica.stages = [{"node_id": str(stage.node_id), "keys": list(stage.keys)} for stage in assignment.stages]
    replica.reserved_bytes = shape.reserved_bytes(accelerator_of(nodes, lead_stage))
    replica.is_exclusive, replica.memory_share = shape.is_exclusive, shape.memory_share
    replica.save(update_fields=["node", "port", "stages", "reserved_bytes", "is_exclusive", "memory_share"])
    change_state(replica, ReplicaState.PLACED, "", now)


def _explain_rest(unplaced: Sequence[Demand], pending: dict[UUID, Replica], nodes: Sequence[NodeView]) -> None:
    """Replicas of one revision are refused for the same reasons, which are looked for once."""
    words: dict[UUID, str] = {}
    for demand in unplaced:
        replica = pending[demand.replica_id]
        if replica.revision_id not in words:
            words[replica.revision_id] = in_words(explain(nodes, demand)) if nodes else "no node has joined"
        _say(replica, words[replica.revision_id])


def _say(replica: Replica, reason: str) -> None:
    if replica.detail != reason:
        replica.detail = reason
        replica.save(update_fields=["detail"])
