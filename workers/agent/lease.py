"""Whether this node still may serve. Pure: times and sightings in, a verdict out.

A node that hears nothing of the control plane serves on: it is the control plane that is down. A node that does not
reach any other node either is cut off, and others take over what it ran (apps/fleet/policies/silence.py). So that no
request is answered twice and no old command carried out, it stops serving before they do, when its lease is over.
"""

from msgspec import Struct

from workers.contracts.desired import DesiredState


class Sightings(Struct, frozen=True, kw_only=True):
    """When the control plane was last heard, and when a peer last answered; of a clock that never goes back."""

    heard_at: float
    peer_at: float | None = None

    @property
    def newest_at(self) -> float:
        return self.heard_at if self.peer_at is None else max(self.heard_at, self.peer_at)


def is_cut_off(desired: DesiredState | None, seen: Sightings, now: float) -> bool:
    """Never where there is no lease, which is where there is nobody to take over."""
    if desired is None or desired.lease_s is None or not desired.peers:
        return False
    return now - seen.newest_at > desired.lease_s


def should_ask_peers(desired: DesiredState | None, seen: Sightings, now: float) -> bool:
    """Early enough that an answer comes before the lease is over."""
    if desired is None or desired.lease_s is None or not desired.peers:
        return False
    return now - seen.newest_at > desired.lease_s / 3
