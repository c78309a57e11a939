"""The weights of versions, and those on nodes' disks, as the planner sees them."""

from collections.abc import Mapping, Sequence
from typing import Any

from apps.deployments.models import Replica, ReplicaState
from apps.placement.policies.fetching import fetched_key
from apps.registry.models import ModelVersion

# Its engine has been started, so its weights are there, whatever its node last said of its disk.
_HAS_WEIGHTS = {
    ReplicaState.STARTING, ReplicaState.WARMING, ReplicaState.READY, ReplicaState.DEGRADED, ReplicaState.SLEEPING,
}  # fmt: skip


def weights_of(version: ModelVersion) -> tuple[str, int]:
    """By what they are known, and how much there is to fetch: 0 where nothing is, or nobody knows."""
    key = fetched_key(version.engine, version.source, version.revision, version.engine_args)
    return key or version.weights_key, (version.weight_bytes or 0) if key else 0


def cached_on(inventory: Mapping[str, Any], placed: Sequence[Replica]) -> frozenset[str]:
    reported = inventory.get("weights")
    keys = {weights_of(each.revision.version)[0] for each in placed if each.state in _HAS_WEIGHTS}
    return frozenset(map(str, reported)) | keys if isinstance(reported, Mapping) else frozenset(keys)


def coming_to(placed: Sequence[Replica], cached: frozenset[str]) -> dict[str, int]:
    """What replicas with a place there have yet to fetch. What has come already is no longer free."""
    coming: dict[str, int] = {}
    for replica in placed:
        key, size = weights_of(replica.revision.version)
        if size and key not in cached and not replica.is_draining:
            missing = size - int(size * min(1.0, max(0.0, replica.progress_ratio or 0.0)))
            coming[key] = min(missing, coming.get(key, missing))
    return coming


def free_disk_of(inventory: Mapping[str, Any]) -> int | None:
    free = inventory.get("disk_free_bytes")
    return free if isinstance(free, int) and not isinstance(free, bool) else None
