"""Nodes and the logs of their engines as they were heard of last."""

from typing import Any

from apps.common.ids import read_uuid
from apps.deployments.models import Replica
from apps.fleet.selectors import name_nodes
from apps.telemetry.policies import NodeFrame
from apps.telemetry.selectors.frames import get_frame, list_frames


def list_live_nodes(*, now_s: float) -> list[dict[str, Any]]:
    """By name; a node that has left the fleet meanwhile is left out."""
    frames = list_frames()
    names = name_nodes({found for frame in frames if (found := read_uuid(frame.telemetry.node_id))})
    known = {str(node_id): name for node_id, name in names.items()}
    rows = [_live(frame, known[frame.telemetry.node_id], now_s) for frame in frames if frame.telemetry.node_id in known]
    return sorted(rows, key=lambda row: str(row["node_name"]))


def get_log(replica: Replica) -> dict[str, Any]:
    frame = get_frame(replica.node_id) if replica.node_id is not None else None
    reports = frame.telemetry.replicas if frame else []
    live = next((each.log_tail for each in reports if each.replica_id == str(replica.pk)), [])
    if live:
        return {"replica_id": replica.pk, "source": "live", "lines": live}
    event = replica.events.exclude(log_tail=[]).first()
    return {"replica_id": replica.pk, "source": "event" if event else "none", "lines": event.log_tail if event else []}


def _live(frame: NodeFrame, name: str, now_s: float) -> dict[str, Any]:
    telemetry, gateway = frame.telemetry, frame.telemetry.gateway
    return {
        "node_id": telemetry.node_id,
        "node_name": name,
        "age_s": max(0.0, now_s - frame.received_at),
        "running_requests": gateway.running_requests if gateway else None,
        "queued_requests": gateway.queued_requests if gateway else None,
        "requests_per_s": frame.rates.requests_per_s,
        "output_tokens_per_s": frame.rates.output_tokens_per_s,
        "accelerators": telemetry.accelerators,
        "replicas": telemetry.replicas,
    }
