"""Routes follow their deployments: while these roll out a version, and once they have."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from apps.common.actors import SYSTEM
from apps.deployments.policies.rollout import Pool
from apps.deployments.selectors import find_successor, list_unrouted
from apps.deployments.services.rollouts import mark_routed, note_generation
from apps.fleet.models import NodeState
from apps.routing.models import GatewayState, RouteTarget, SnapshotGeneration
from apps.routing.services.routes import set_canary_weights

# A gateway that has not taken a snapshot for so long holds nobody up any more.
PATIENCE = timedelta(seconds=60)


def move_finished_targets(pools: Sequence[Pool], *, now: datetime) -> None:
    """A target whose version nothing runs any more, because its deployment has gone on to another, goes on with it."""
    running = {version_id for pool in pools for version_id in pool.ready}
    for target in RouteTarget.objects.exclude(version_id__in=running).select_related("route"):
        successor = find_successor(target.version_id)
        if successor is not None:
            _move(target, successor.version_id, now)


def _move(target: RouteTarget, version_id: UUID, now: datetime) -> None:
    """In place, for its rank as an alternative goes with it; into the other where that is a target, too."""
    weights = {each.version_id: each.weight for each in target.route.targets.all()}
    moved = weights.pop(target.version_id)
    ranked = [each.version_id for each in target.route.alternatives]
    alternatives = [version_id if each == target.version_id else each for each in ranked]
    set_canary_weights(
        actor=SYSTEM,
        route_id=target.route_id,
        weights=weights | {version_id: moved + weights.get(version_id, 0)},
        alternatives=list(dict.fromkeys(alternatives)),
        now=now,
    )


def note_what_gateways_know(*, now: datetime) -> None:
    """After a snapshot with all there is has been published: marks revisions that every gateway has heard of."""
    newest = SnapshotGeneration.objects.only("generation").first()
    for revision in list_unrouted():
        if revision.routed_generation is None and newest is not None:
            note_generation(revision, newest.generation)
        if revision.routed_generation is not None and _is_known(revision.routed_generation, now):
            mark_routed(revision)


def _is_known(generation: int, now: datetime) -> bool:
    behind = GatewayState.objects.filter(node__state=NodeState.ONLINE, active_generation__lt=generation)
    if not behind.exists():
        return True
    published = SnapshotGeneration.objects.filter(pk=generation).values_list("compiled_at", flat=True).first()
    return published is None or now - published > PATIENCE
