"""What engines were measured to use, which corrects what was reckoned of others like them."""

from datetime import datetime
from typing import Any

from apps.deployments.models import HOST_KEY, MemoryMeasurement, Replica, ReplicaState
from apps.fleet.models import Accelerator
from workers.contracts.telemetry import ReplicaReport


def record_measurement(*, replica: Replica, report: ReplicaReport, now: datetime) -> None:
    """Of one that serves on GPUs; what it uses while it loads or sleeps says nothing."""
    keys = [key for stage in replica.stages for key in stage["keys"] if key != HOST_KEY]
    if report.state != ReplicaState.READY or not keys or not report.memory_bytes:
        return
    here = [key for stage in replica.stages if stage["node_id"] == str(replica.node_id) for key in stage["keys"]]
    measured = {"memory_bytes": report.memory_bytes // max(1, len(here)), "kv_tokens": report.kv_capacity_tokens}
    of_node = Accelerator.objects.filter(node__replicas=replica, key=keys[0])
    model = of_node.values_list("model", flat=True).first()
    kind: dict[str, Any] = {
        "version_id": replica.revision.version_id,
        "gpu_count": len(keys),
        "gpu_model": model or "",
    }
    if not MemoryMeasurement.objects.filter(**kind, **measured).exists():
        MemoryMeasurement.objects.update_or_create(**kind, defaults=measured | {"measured_at": now})
