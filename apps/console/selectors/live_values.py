"""Live figures by their keys, as apps.console.policies.frames names them, each made when it is asked for."""

from collections.abc import Callable
from typing import Any

from apps.console.policies import frames
from apps.console.selectors.picture import Picture, ready_count
from apps.deployments.models import Deployment, Replica
from apps.telemetry.policies import is_stale
from workers.contracts.telemetry import ReplicaReport

Values = dict[str, frames.Value]


class LiveValues:
    """Of a fleet of 1,000 nodes a page shows a few: what no page names is never put into words."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._by_entity: dict[str, Values] = {}

    def get(self, key: str, default: Any = None) -> Any:
        entity = key.rpartition(".")[0]
        if entity not in self._by_entity:
            kind, _, identity = entity.partition(".")
            self._by_entity[entity] = _MAKERS.get(kind, _of_nothing)(identity, self._picture)
        return self._by_entity[entity].get(key, default)


def _of_nothing(_identity: str, _picture: Picture) -> Values:
    return {}


def _of_overview(_identity: str, picture: Picture) -> Values:
    slo_ms = picture.ttft_slo[1] if picture.ttft_slo else None
    values = frames.overview_values(
        picture.overview, node_count=len(picture.nodes), class_names=picture.class_names, ttft_slo_ms=slo_ms
    )
    return values | _of_snapshot(picture)


def _of_snapshot(picture: Picture) -> Values:
    snapshot = picture.snapshot
    if snapshot.generation is None:
        return {"snapshot_context": {"text": "none has been compiled yet"}}
    reach = f"active on {snapshot.active_count} of {snapshot.gateway_count} gateways"
    return {
        "snapshot_generation": {"text": f"generation {snapshot.generation}"},
        "snapshot_context": {"text": reach},
    }


def _of_node(identity: str, picture: Picture) -> Values:
    node = picture.nodes_by_id.get(identity)
    if node is None:
        return {}
    frame = picture.telemetry.get(identity)
    return frames.node_values(node_id=identity, state=node.state, frame=frame, now_s=picture.now_s)


def _of_accelerator(identity: str, picture: Picture) -> Values:
    if identity not in picture.accelerators:
        return {}
    node_id, kind, index = picture.accelerators[identity]
    frame = picture.telemetry.get(str(node_id))
    told = frame.telemetry.accelerators if frame else []
    report = next((each for each in told if (each.kind, each.index) == (kind, index)), None)
    return frames.accelerator_values(identity, report)


def _of_deployment(identity: str, picture: Picture) -> Values:
    deployment = picture.deployments_by_id.get(identity)
    if deployment is None:
        return {}
    reports = [_report_of(replica, picture) for replica in deployment.replicas.all()]
    own = {
        "state": frames.word(_state_of(deployment)),
        "ready": {"text": f"{ready_count(deployment)} of {deployment.replica_count}"},
        "running": frames.figure(frames.total([each.running_requests for each in reports if each]), "count"),
        "waiting": frames.figure(frames.total([each.waiting_requests for each in reports if each]), "count"),
    }
    return {f"deployment.{identity}.{name}": value for name, value in own.items()}


def _of_replica(identity: str, picture: Picture) -> Values:
    replica = picture.replicas_by_id.get(identity)
    if replica is None:
        return {}
    report = _report_of(replica, picture)
    return frames.replica_values(
        replica_id=identity, state=replica.state, detail=replica.detail, report=report, is_old=report is None
    )


def _report_of(replica: Replica, picture: Picture) -> ReplicaReport | None:
    frame = picture.telemetry.get(str(replica.node_id))
    if frame is None or is_stale(frame, picture.now_s):
        return None
    return next((report for report in frame.telemetry.replicas if report.replica_id == str(replica.pk)), None)


def _state_of(deployment: Deployment) -> str:
    states = {replica.state for replica in deployment.replicas.all() if not replica.is_draining}
    if ready_count(deployment) >= deployment.replica_count:
        return "ready" if deployment.replica_count else "stopped"
    return "failed" if "failed" in states else "unknown" if "unknown" in states else "starting"


_MAKERS: dict[str, Callable[[str, Picture], Values]] = {
    "": _of_overview,
    "node": _of_node,
    "accelerator": _of_accelerator,
    "deployment": _of_deployment,
    "replica": _of_replica,
}
