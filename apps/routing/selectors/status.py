"""Which generation is newest and which gateways act on it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.fleet.models import Node, NodeState
from apps.routing.models import SnapshotGeneration


@dataclass(frozen=True, kw_only=True)
class GatewayStatus:
    """`active_generation` is None until the gateway has reported; `is_active` needs a node that is online, too."""

    node_id: UUID
    node_name: str
    node_state: str
    active_generation: int | None
    is_active: bool
    error: str


@dataclass(frozen=True, kw_only=True)
class SnapshotStatus:
    """`generation` is None before the first compilation."""

    generation: int | None
    compiled_at: datetime | None
    active_count: int
    gateway_count: int
    gateways: list[GatewayStatus]

    def __str__(self) -> str:
        if self.generation is None:
            return "no generation yet"
        return f"generation {self.generation} active on {self.active_count} of {self.gateway_count} gateways"


def get_snapshot_status() -> SnapshotStatus:
    newest = SnapshotGeneration.objects.only("generation", "compiled_at").first()
    nodes = Node.objects.exclude(state=NodeState.JOINING).select_related("gateway").order_by("name")
    gateways = [_status_of(node, newest.generation if newest else None) for node in nodes]
    return SnapshotStatus(
        generation=newest.generation if newest else None,
        compiled_at=newest.compiled_at if newest else None,
        active_count=sum(gateway.is_active for gateway in gateways),
        gateway_count=len(gateways),
        gateways=gateways,
    )


def _status_of(node: Node, newest: int | None) -> GatewayStatus:
    report = getattr(node, "gateway", None)
    active = report.active_generation if report else None
    return GatewayStatus(
        node_id=node.pk,
        node_name=node.name,
        node_state=node.state,
        active_generation=active,
        is_active=node.state == NodeState.ONLINE and active is not None and active == newest,
        error=report.error if report else "",
    )


def get_newest_envelope() -> tuple[int, bytes] | None:
    row = SnapshotGeneration.objects.values_list("generation", "envelope").first()
    return (row[0], row[1].encode()) if row else None
