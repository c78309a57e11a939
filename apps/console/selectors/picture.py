"""Everything that live figures are made of, read at one time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from apps.console.policies import frames
from apps.console.policies.verdict import Condition, DeploymentCondition, NodeCondition
from apps.deployments.models import Deployment, Replica
from apps.deployments.selectors import list_deployments
from apps.fleet.models import Accelerator, Node
from apps.quotas.selectors import list_service_classes, list_slo_profiles
from apps.routing.models import Route
from apps.routing.selectors.routes import list_routes
from apps.routing.selectors.status import SnapshotStatus, get_snapshot_status
from apps.telemetry.policies import NodeFrame, Overview, is_stale, overview_of
from apps.telemetry.selectors.frames import list_frames, list_series

DOWN = {"failed", "unknown"}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """`accelerators` are each one's node, kind and index, by its id."""

    now_s: float
    nodes: Sequence[Node]
    accelerators: Mapping[str, tuple[UUID, str, int]]
    deployments: Sequence[Deployment]
    telemetry: dict[str, NodeFrame]
    snapshot: SnapshotStatus
    overview: Overview
    ttft_slo: tuple[str, int] | None
    class_names: list[str]
    routes: Sequence[Route]

    @cached_property
    def nodes_by_id(self) -> dict[str, Node]:
        return {str(node.pk): node for node in self.nodes}

    @cached_property
    def deployments_by_id(self) -> dict[str, Deployment]:
        return {str(deployment.pk): deployment for deployment in self.deployments}

    @cached_property
    def replicas_by_id(self) -> dict[str, Replica]:
        return {str(replica.pk): replica for each in self.deployments for replica in each.replicas.all()}

    def names_of(self, deployment: Deployment) -> list[str]:
        """The public names that lead to it."""
        return [
            route.public_name
            for route in self.routes
            if any(target.version_id == deployment.version_id and target.weight for target in route.targets.all())
        ]


def read_picture(*, now_s: float) -> Picture:
    telemetry = list_frames()
    recent = frames.history_of(list_series(since_s=now_s - frames.MEAN_OVER_S))
    return Picture(
        now_s=now_s,
        nodes=list(Node.objects.all()),
        accelerators=_list_accelerators(),
        deployments=list(list_deployments()),
        telemetry={frame.telemetry.node_id: frame for frame in telemetry},
        snapshot=get_snapshot_status(),
        overview=frames.smoothed(overview_of(telemetry, now_s), recent),
        ttft_slo=tightest_ttft_slo(),
        routes=list(list_routes()),
        class_names=[service_class.name for service_class in list_service_classes()],
    )


def _list_accelerators() -> dict[str, tuple[UUID, str, int]]:
    rows = Accelerator.objects.values_list("pk", "node_id", "kind", "index")
    return {str(identity): (node_id, kind, index) for identity, node_id, kind, index in rows}


def tightest_ttft_slo() -> tuple[str, int] | None:
    """The name and milliseconds of the profile that promises the fastest first token."""
    profiles = [(profile.ttft_ms, profile.name) for profile in list_slo_profiles()]
    return (min(profiles)[1], min(profiles)[0]) if profiles else None


def ready_count(deployment: Deployment) -> int:
    return sum(replica.state == "ready" and not replica.is_draining for replica in deployment.replicas.all())


def condition_of(picture: Picture) -> Condition:
    gateways = {str(gateway.node_id): gateway for gateway in picture.snapshot.gateways}
    name, slo_ms = picture.ttft_slo or ("", None)
    return Condition(
        now=datetime.fromtimestamp(picture.now_s, UTC),
        nodes=[_node_condition(node, picture, gateways.get(str(node.pk))) for node in picture.nodes],
        deployments=[_deployment_condition(each, picture.names_of(each)) for each in picture.deployments],
        generation=picture.snapshot.generation,
        ttft_ms_p95=picture.overview.ttft_ms_p95,
        ttft_slo_ms=slo_ms,
        ttft_slo_name=name,
        failures_per_s=picture.overview.failures_per_s,
        unsent_records=picture.overview.spool_pending_records,
    )


def _node_condition(node: Node, picture: Picture, gateway: Any) -> NodeCondition:
    frame = picture.telemetry.get(str(node.pk))
    return NodeCondition(
        node_id=str(node.pk),
        name=node.name,
        state=node.state,
        last_seen_at=node.last_seen_at,
        is_fresh=frame is not None and not is_stale(frame, picture.now_s),
        active_generation=gateway.active_generation if gateway else None,
        gateway_error=gateway.error if gateway else "",
    )


def _deployment_condition(deployment: Deployment, names: Sequence[str]) -> DeploymentCondition:
    replicas = [replica for replica in deployment.replicas.all() if not replica.is_draining]
    changes = [replica.state_changed_at for replica in replicas if replica.state != "ready"]
    failed = [replica.detail or "failed" for replica in replicas if replica.state == "failed"]
    return DeploymentCondition(
        deployment_id=str(deployment.pk),
        name=deployment.name,
        wanted=deployment.replica_count,
        ready=ready_count(deployment),
        failed_detail=failed[0] if failed else "",
        is_starting=not any(replica.state in DOWN for replica in replicas),
        public_names=names,
        changed_at=min(changes, default=None),
    )
