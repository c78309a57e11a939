from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

SILENT_AFTER = timedelta(seconds=15)
SEEN_RESOLUTION = timedelta(seconds=5)
# What an agent may do for itself after the last word from us; after the margin the others take over.
LEASE = timedelta(seconds=60)
LEASE_MARGIN = timedelta(seconds=30)
MOST_SILENT_SHARE = 0.2


def is_silent(last_seen_at: datetime | None, now: datetime) -> bool:
    return last_seen_at is None or now - last_seen_at > SILENT_AFTER


def is_worth_writing(last_seen_at: datetime | None, now: datetime) -> bool:
    """A heartbeat each second is written to Postgres each 5 s at most."""
    return last_seen_at is None or now - last_seen_at >= SEEN_RESOLUTION


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSight:
    """`is_lost` is what was decided about it before."""

    node_id: UUID
    last_seen_at: datetime | None
    is_lost: bool = False


def newly_lost(nodes: Sequence[NodeSight], now: datetime) -> list[UUID]:
    """Nodes whose lease has run out, so that their replicas are placed elsewhere.

    When many are silent at once, it is the control plane that cannot hear, or a network between: nothing is lost then,
    for moving everything would do more harm than waiting. An agent that hears nothing for as long as its lease, and
    reaches no other node either, stops serving by itself before this comes to be (workers/agent/lease.py).
    """
    heard = [node for node in nodes if not node.is_lost and node.last_seen_at is not None]
    silent = [node for node in heard if is_silent(node.last_seen_at, now)]
    if len(silent) == len(heard) or len(silent) > max(1, int(MOST_SILENT_SHARE * len(heard))):
        return []
    return [node.node_id for node in silent if node.last_seen_at and now - node.last_seen_at > LEASE + LEASE_MARGIN]
