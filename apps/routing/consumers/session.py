"""One agent's link as values: what it holds, what to send it, what of its telemetry is news. No I/O.

frames_to_push   → what the agent lacks, at most one try each `RETRY_S`
is_newer         → whether it is to be heard at all: a link is one agent's, which counts its telemetry
heard            → what the node holds, and whether to note that it lives
telemetry_came   → what differs from what Postgres was told last
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import msgspec

from apps.fleet.policies.silence import SEEN_RESOLUTION, is_worth_writing
from workers.contracts.desired import DesiredState
from workers.contracts.link import DesiredPush, SnapshotPush
from workers.contracts.telemetry import AcceleratorReport, DiskReport, GatewayReport, NodeTelemetry, ReplicaReport

RETRY_S = 2.0
FOREIGN_STEP_BYTES = 64 * 1024 * 1024
DISK_STEP_BYTES = 1024 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Newest:
    """What the control plane wants a node to hold; None where there is nothing yet."""

    snapshot: tuple[int, bytes] | None = None
    desired: tuple[int, bytes] | None = None


@dataclass(frozen=True, kw_only=True)
class TelemetryNews:
    """None stands for "nothing new"."""

    replicas: list[ReplicaReport] | None
    gateway: GatewayReport | None
    accelerators: list[AcceleratorReport] | None
    disk: DiskReport | None


@dataclass
class LinkState:
    node_id: UUID
    held_snapshot: int | None = None
    held_desired: int | None = None
    pushed_snapshot: tuple[int, float] = (0, 0.0)
    pushed_desired: tuple[int, float] = (0, 0.0)
    sequence: int = 0
    seen_at: datetime | None = None
    doubted_until: datetime | None = None
    _replicas: Sequence[tuple[object, ...]] = field(default_factory=list)
    _gateway: tuple[object, ...] | None = None
    _accelerators: Sequence[tuple[object, ...]] = ()
    _disk: DiskReport | None = None

    def frames_to_push(self, newest: Newest, now_s: float) -> list[bytes]:
        frames = []
        if newest.snapshot and _is_due(newest.snapshot[0], self.held_snapshot, self.pushed_snapshot, now_s):
            generation, envelope = newest.snapshot
            self.pushed_snapshot = (generation, now_s)
            frames.append(msgspec.json.encode(SnapshotPush(generation=generation, envelope=msgspec.Raw(envelope))))
        if newest.desired and _is_due(newest.desired[0], self.held_desired, self.pushed_desired, now_s):
            self.pushed_desired = (newest.desired[0], now_s)
            frames.append(msgspec.json.encode(DesiredPush(body=_decode_desired(newest.desired[1]))))
        return frames

    def is_newer(self, telemetry: NodeTelemetry) -> bool:
        """What comes twice, or after what was said later, says nothing about now."""
        return telemetry.sequence > self.sequence

    def heard(self, telemetry: NodeTelemetry, now: datetime) -> bool:
        """Whether it is to be noted that the node was heard."""
        self.sequence = telemetry.sequence
        self.held_snapshot, self.held_desired = telemetry.snapshot_generation, telemetry.desired_generation
        is_seen = is_worth_writing(self.seen_at, now)
        self.seen_at = now if is_seen else self.seen_at
        return is_seen

    def telemetry_came(self, telemetry: NodeTelemetry, now: datetime) -> TelemetryNews:
        if self.doubted_until and now < self.doubted_until:
            self._replicas = []
        return TelemetryNews(
            replicas=self._new_replicas(telemetry),
            gateway=self._new_gateway(telemetry),
            accelerators=self._new_accelerators(telemetry),
            disk=self._new_disk(telemetry),
        )

    def forget_written(self) -> None:
        """After a write that failed: the next telemetry is news again."""
        self.seen_at, self._replicas, self._gateway, self._accelerators, self._disk = None, [], None, (), None

    def doubt_written(self, now: datetime) -> None:
        """Its replicas are news for a while: a loop that forgets those of a silent node may still be at it.

        No more than that. A thousand nodes that were taken for silent because this process was slow made it slower yet,
        when each told all of itself again each second.
        """
        self.doubted_until = now + SEEN_RESOLUTION

    def _new_replicas(self, telemetry: NodeTelemetry) -> list[ReplicaReport] | None:
        stored = [
            (
                *(r.replica_id, r.state, r.detail, r.spec_hash, r.restarts, r.has_given_up),
                *(r.memory_bytes, r.kv_capacity_tokens, r.is_prepared),
            )
            for r in telemetry.replicas
        ]
        is_new, self._replicas = stored != self._replicas, stored
        return telemetry.replicas if is_new else None

    def _new_gateway(self, telemetry: NodeTelemetry) -> GatewayReport | None:
        report = telemetry.gateway
        if report is None:
            return None
        stored = (report.gateway_id, report.boot_id, report.active_generation, report.snapshot_error)
        is_new, self._gateway = stored != self._gateway, stored
        return report if is_new else None

    def _new_accelerators(self, telemetry: NodeTelemetry) -> list[AcceleratorReport] | None:
        stored = [_stored_facts(report) for report in telemetry.accelerators]
        is_new, self._accelerators = stored != self._accelerators, stored
        return telemetry.accelerators if is_new else None

    def _new_disk(self, telemetry: NodeTelemetry) -> DiskReport | None:
        report, told = telemetry.disk, self._disk
        if report is None or (told is not None and not _differs(told, report)):
            return None
        self._disk = report
        return report


def _differs(told: DiskReport, report: DiskReport) -> bool:
    """Its free bytes by a step at least, as something is always being written somewhere."""
    if told.weights != report.weights or told.free_bytes is None or report.free_bytes is None:
        return told != report
    return abs(told.free_bytes - report.free_bytes) >= DISK_STEP_BYTES


def _stored_facts(report: AcceleratorReport) -> tuple[object, ...]:
    """Foreign memory in steps, so that its trembling is not written each second."""
    foreign = None if report.foreign_bytes is None else -(-report.foreign_bytes // FOREIGN_STEP_BYTES)
    facts = (report.kind, report.index, report.key, report.name, report.profile, report.memory_total_bytes)
    links = (tuple(report.nvlinks), report.pci_bus_id, report.pcie_generation, report.pcie_width)
    return *facts, *links, report.island, report.numa, report.driver_version, report.problem, foreign


def _is_due(newest: int, held: int | None, pushed: tuple[int, float], now_s: float) -> bool:
    if held == newest:
        return False
    generation, at = pushed
    return generation != newest or now_s - at >= RETRY_S


_decode_desired = msgspec.json.Decoder(DesiredState).decode
