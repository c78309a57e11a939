"""What the node looks like now, put together once a second; and what it has, told once per connection."""

import os
import platform
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import structs

from workers.agent.hardware.accelerators import Accelerators
from workers.agent.node_files import NodeFiles
from workers.agent.storage.disk import WeightsDisk
from workers.contracts.telemetry import DiskReport, NodeTelemetry, ReplicaReport
from workers.engines.interface import EngineAdapter

AGENT_VERSION = "0.1.0"

_SETTLED_STATES = {"ready", "draining", "stopped"}
_TOLD_AGAIN_S = 30.0
_TAIL_LINES = 20
_TAIL_LINE_CHARACTERS = 300


class TelemetrySource:
    """`log_tail` gives the last lines of a replica's log; while it is well they are sent when they have changed."""

    def __init__(
        self,
        node_id: str,
        boot_id: str,
        files: NodeFiles,
        accelerators: Accelerators,
        disk: WeightsDisk,
        *,
        log_tail: Callable[[str, int], list[str]],
    ) -> None:
        self._node_id = node_id
        self._boot_id = boot_id
        self._files = files
        self._accelerators = accelerators
        self._disk = disk
        self._log_tail = log_tail
        self._sequence = 0
        self._told: dict[str, tuple[list[str], float]] = {}

    def sample(self, reports: Iterable[ReplicaReport], now: float) -> NodeTelemetry:
        """`now` in Unix seconds."""
        self._sequence += 1
        reports = list(reports)
        self._told = {each.replica_id: self._told[each.replica_id] for each in reports if each.replica_id in self._told}
        return NodeTelemetry(
            node_id=self._node_id,
            boot_id=self._boot_id,
            sequence=self._sequence,
            sampled_at=now,
            desired_generation=self._files.desired_generation,
            snapshot_generation=self._files.snapshot_generation,
            replicas=[self._with_tail(report, now) for report in reports],
            accelerators=self._accelerators.sample(),
            disk=self._disk.sample(now),
            gateway=self._files.read_gateway_report(now),
            decisions=self._files.take_decisions(),
        )

    def _with_tail(self, report: ReplicaReport, now: float) -> ReplicaReport:
        tail = [line[:_TAIL_LINE_CHARACTERS] for line in self._log_tail(report.replica_id, _TAIL_LINES)]
        told, at = self._told.get(report.replica_id, ([], 0.0))
        if report.state in _SETTLED_STATES and tail == told and now - at < _TOLD_AGAIN_S:
            return report
        self._told[report.replica_id] = (tail, now)
        return structs.replace(report, log_tail=tail)


def take_inventory(accelerators: Accelerators, adapters: Iterable[EngineAdapter], disk: DiskReport) -> dict[str, Any]:
    return {
        "hostname": platform.node(),
        "cpu_count": os.cpu_count(),
        "memory_bytes": accelerators.memory_total_bytes,
        "gpus": accelerators.gpu_names,
        "weights": disk.weights,
        "disk_free_bytes": disk.free_bytes,
        "engines": [adapter.name for adapter in adapters if adapter.is_available()],
    }
