from collections import Counter
from datetime import datetime
from uuid import UUID

from django.conf import settings

from apps.common.services import lead
from apps.deployments.models import Replica
from apps.deployments.services import ensure_replicas, mark_unreachable_replicas, write_desired_states
from apps.fleet.models import Node
from apps.placement.policies import NodeView, lowest_free_port, place


def reconcile(*, holder: str, now: datetime) -> bool:
    """One turn of the loop from deployments to desired states; False when another process leads it."""
    with lead("placement", holder=holder) as fence:
        if fence is None:
            return False
        ensure_replicas(now=now)
        mark_unreachable_replicas(now=now)
        place_pending_replicas()
        write_desired_states(fence=fence, now=now)
    return True


def place_pending_replicas() -> None:
    taken = {port for port in Replica.objects.values_list("port", flat=True) if port is not None}
    for replica in Replica.objects.filter(node=None).select_related("deployment__version").order_by("id"):
        _place(replica, taken)


def _place(replica: Replica, taken: set[int]) -> None:
    """Ports are unique over the fleet, so that two nodes may share a host."""
    placement = place(
        deployment_id=replica.deployment_id, engine=replica.deployment.version.engine, nodes=_node_views()
    )
    port = lowest_free_port(base=settings.ENGINE_PORT_BASE, taken=taken)
    if placement.node_id is None or port is None:
        _explain(replica, placement.explain() if port else "no port is free")
        return
    replica.node_id, replica.port, replica.detail = placement.node_id, port, ""
    replica.save(update_fields=["node", "port", "detail"])
    taken.add(port)


def _explain(replica: Replica, reason: str) -> None:
    if replica.detail != reason:
        replica.detail = reason
        replica.save(update_fields=["detail"])


def _node_views() -> list[NodeView]:
    counts: dict[UUID, Counter[UUID]] = {}
    for node_id, deployment_id in Replica.objects.exclude(node=None).values_list("node_id", "deployment_id"):
        counts.setdefault(node_id, Counter())[deployment_id] += 1
    return [_view_of(node, counts.get(node.pk, Counter())) for node in Node.objects.order_by("name")]


def _view_of(node: Node, replica_counts: Counter[UUID]) -> NodeView:
    engines = node.inventory.get("engines")
    return NodeView(
        node_id=node.pk,
        name=node.name,
        state=node.state,
        is_cordoned=node.is_cordoned,
        engines=frozenset(map(str, engines)) if isinstance(engines, list) else None,
        replica_counts=dict(replica_counts),
    )
