"""Reads what the live frame is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.urls import reverse

from apps.console.policies import frames
from apps.console.policies.verdict import Condition, DeploymentCondition, NodeCondition, Problem, Verdict, judge
from apps.deployments.models import Deployment, Replica
from apps.deployments.selectors import list_deployments
from apps.fleet.models import Node
from apps.fleet.selectors import list_nodes
from apps.quotas.selectors import list_service_classes, list_slo_profiles
from apps.routing.models import Route
from apps.routing.selectors.routes import list_routes
from apps.routing.selectors.status import SnapshotStatus, get_snapshot_status
from apps.telemetry.policies import NodeFrame, Overview, is_stale, overview_of
from apps.telemetry.selectors.frames import list_frames, list_recent_points, list_series
from workers.contracts.telemetry import ReplicaReport

DOWN = {"failed", "unknown"}
STARTING = {"pending", "starting", "warming"}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Everything one frame is made of, read at one time."""

    now_s: float
    nodes: Sequence[Node]
    deployments: Sequence[Deployment]
    telemetry: dict[str, NodeFrame]
    snapshot: SnapshotStatus
    overview: Overview
    ttft_slo: tuple[str, int] | None
    class_names: list[str]
    routes: Sequence[Route]

    def names_of(self, deployment: Deployment) -> list[str]:
        """The public names that lead to it."""
        return [
            route.public_name
            for route in self.routes
            if any(target.version_id == deployment.version_id and target.weight for target in route.targets.all())
        ]


def read_frame(*, now_s: float) -> dict[str, Any]:
    picture = _read(now_s)
    verdict = judge(_condition(picture))
    return {
        "type": "frame",
        "at": int(now_s),
        "verdict": _linked(verdict),
        "values": _values(picture),
        "samples": frames.samples_of(picture.overview),
    }


def read_history() -> dict[str, Any]:
    return {"type": "history", **frames.history_of([list_series(node.pk) for node in list_nodes()])}


def tightest_ttft_slo() -> tuple[str, int] | None:
    """The name and milliseconds of the profile that promises the fastest first token."""
    profiles = [(profile.ttft_ms, profile.name) for profile in list_slo_profiles()]
    return (min(profiles)[1], min(profiles)[0]) if profiles else None


def _read(now_s: float) -> Picture:
    telemetry = list_frames()
    nodes = list(list_nodes())
    recent = frames.history_of(list_recent_points([node.pk for node in nodes], count=frames.MEAN_OVER_S))
    return Picture(
        now_s=now_s,
        nodes=nodes,
        deployments=list(list_deployments()),
        telemetry={frame.telemetry.node_id: frame for frame in telemetry},
        snapshot=get_snapshot_status(),
        overview=frames.smoothed(overview_of(telemetry, now_s), recent),
        ttft_slo=tightest_ttft_slo(),
        routes=list(list_routes()),
        class_names=[service_class.name for service_class in list_service_classes()],
    )


def _values(picture: Picture) -> dict[str, frames.Value]:
    slo_ms = picture.ttft_slo[1] if picture.ttft_slo else None
    parts = [
        frames.overview_values(
            picture.overview, node_count=len(picture.nodes), class_names=picture.class_names, ttft_slo_ms=slo_ms
        )
    ]
    parts.append(_snapshot_values(picture.snapshot))
    parts += [_node_values(node, picture) for node in picture.nodes]
    parts += [_deployment_values(deployment, picture) for deployment in picture.deployments]
    return frames.merge(parts)


def _snapshot_values(snapshot: SnapshotStatus) -> dict[str, frames.Value]:
    if snapshot.generation is None:
        return {"snapshot_context": {"text": "none has been compiled yet"}}
    reach = f"active on {snapshot.active_count} of {snapshot.gateway_count} gateways"
    return {
        "snapshot_generation": {"text": f"generation {snapshot.generation}"},
        "snapshot_context": {"text": reach},
    }


def _node_values(node: Node, picture: Picture) -> dict[str, frames.Value]:
    frame = picture.telemetry.get(str(node.pk))
    reports = {(report.kind, report.index): report for report in frame.telemetry.accelerators} if frame else {}
    accelerators = [
        frames.accelerator_values(str(row.pk), reports.get((row.kind, row.index))) for row in node.accelerators.all()
    ]
    node_part = frames.node_values(node_id=str(node.pk), state=node.state, frame=frame, now_s=picture.now_s)
    return frames.merge([node_part, *accelerators])


def _deployment_values(deployment: Deployment, picture: Picture) -> dict[str, frames.Value]:
    replicas = list(deployment.replicas.all())
    reports = [_report_of(replica, picture) for replica in replicas]
    prefix = f"deployment.{deployment.pk}"
    ready = _ready_count(deployment)
    own = {
        f"{prefix}.state": frames.word(_state_of(deployment)),
        f"{prefix}.ready": {"text": f"{ready} of {deployment.replica_count}"},
        f"{prefix}.running": frames.figure(frames.total([r.running_requests for r in reports if r]), "count"),
        f"{prefix}.waiting": frames.figure(frames.total([r.waiting_requests for r in reports if r]), "count"),
    }
    parts = [
        frames.replica_values(
            replica_id=str(replica.pk),
            state=replica.state,
            detail=replica.detail,
            report=report,
            is_old=report is None,
        )
        for replica, report in zip(replicas, reports, strict=True)
    ]
    return frames.merge([own, *parts])


def _report_of(replica: Replica, picture: Picture) -> ReplicaReport | None:
    frame = picture.telemetry.get(str(replica.node_id))
    if frame is None or is_stale(frame, picture.now_s):
        return None
    return next((report for report in frame.telemetry.replicas if report.replica_id == str(replica.pk)), None)


def _ready_count(deployment: Deployment) -> int:
    return sum(replica.state == "ready" and not replica.is_draining for replica in deployment.replicas.all())


def _state_of(deployment: Deployment) -> str:
    states = {replica.state for replica in deployment.replicas.all() if not replica.is_draining}
    if _ready_count(deployment) >= deployment.replica_count:
        return "ready" if deployment.replica_count else "stopped"
    return "failed" if "failed" in states else "unknown" if "unknown" in states else "starting"


def _condition(picture: Picture) -> Condition:
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
        ready=_ready_count(deployment),
        failed_detail=failed[0] if failed else "",
        is_starting=not any(replica.state in DOWN for replica in replicas),
        public_names=names,
        changed_at=min(changes, default=None),
    )


def _linked(verdict: Verdict) -> dict[str, Any]:
    problems = [_linked_problem(problem) for problem in verdict.problems]
    return {"state": verdict.state, "title": verdict.title, "note": verdict.note, "problems": problems}


def _linked_problem(problem: Problem) -> dict[str, Any]:
    return {
        "level": problem.level,
        "text": problem.text,
        "url": _url_of(problem),
        "since": problem.since.isoformat() if problem.since else None,
        "whom": problem.whom,
    }


def _url_of(problem: Problem) -> str:
    kind, _, identity = problem.about.partition(".")
    return reverse(f"console:{kind}", args=[identity] if identity else [])


def read_logs(replicas: Sequence[Replica]) -> list[dict[str, Any]]:
    """The last lines each replica's engine wrote, as far as its node's newest telemetry carries them."""
    reported = [report for frame in list_frames() for report in frame.telemetry.replicas if not report.follows]
    reports = {report.replica_id: report for report in reported}
    found = [(replica, reports.get(str(replica.pk))) for replica in replicas]
    return [
        {
            "node": replica.node,
            "port": replica.port,
            "element_id": f"log-{replica.pk}",
            "text": "\n".join(report.log_tail),
        }
        for replica, report in found
        if report is not None and report.log_tail
    ]
