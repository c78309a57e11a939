from datetime import datetime
from uuid import UUID

from apps.common import live
from apps.routing.models import GatewayState
from workers.contracts.telemetry import GatewayReport


def record_gateway(*, node_id: UUID, report: GatewayReport, now: datetime) -> None:
    """Called when the report differs from the one before in what is stored here."""
    GatewayState.objects.update_or_create(
        node_id=node_id,
        defaults={
            "gateway_id": report.gateway_id[:64],
            "boot_id": report.boot_id[:64],
            "active_generation": max(0, report.active_generation),
            "error": report.snapshot_error.replace("\x00", "")[:500],
            "changed_at": now,
        },
    )
    payload = {"node_id": str(node_id), "active_generation": report.active_generation, "error": report.snapshot_error}
    live.publish_on_commit(live.ROUTES, payload)
