"""Rules of routes and of what counts as the same snapshot. Pure."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from apps.deployments.policies.rollout import Pool
from workers.contracts.snapshot import Snapshot

MAX_WEIGHT = 10_000
MAX_NODES = 8
# What a weight is multiplied by where it is shared out.
FINE = 1_000
_LOOPBACK = ("localhost", "127.0.0.1")


class Placed(NamedTuple):
    """A replica that is to run: of which version, on which node, and whether it answers now."""

    version_id: UUID
    node_id: UUID
    is_ready: bool


def nodes_by_version(placed: Iterable[Placed]) -> dict[UUID, list[str]]:
    """Where a request that came to another node's gateway is forwarded: nodes that are ready, else those that start.

    At most MAX_NODES, the first by id, so that a replica that moves among a thousand nodes seldom makes a new snapshot.
    """
    ready: dict[UUID, set[str]] = defaultdict(set)
    starting: dict[UUID, set[str]] = defaultdict(set)
    for each in placed:
        (ready if each.is_ready else starting)[each.version_id].add(str(each.node_id))
    return {version_id: sorted(nodes)[:MAX_NODES] for version_id, nodes in (starting | ready).items()}


def problem_of_weights(weights: Mapping[UUID, int]) -> str | None:
    if not weights:
        return "a route needs at least one target"
    if any(not 0 <= weight <= MAX_WEIGHT for weight in weights.values()):
        return f"a weight is a whole number from 0 to {MAX_WEIGHT}"
    return None if any(weights.values()) else "at least one weight must be above 0"


def weights_while_rolling(weights: Mapping[UUID, int], pools: Sequence[Pool]) -> dict[UUID, int]:
    """A target's weight is shared out over the versions that its deployments are on the way between, as they are ready.

    None of them has less than a little: a gateway takes whichever has an engine, so that the last one of the old
    version may go before every gateway has heard of it.
    """
    moving = {v: counts for v in weights if weights[v] and len(counts := _ready_beside(v, pools)) > 1}
    if not moving:
        return dict(weights)
    shared: Counter[UUID] = Counter({v: FINE * weight for v, weight in weights.items() if v not in moving})
    for version_id, counts in moving.items():
        for each, share in _shares(version_id, counts).items():
            shared[each] += max(1, round(FINE * weights[version_id] * share))
    return dict(shared)


def _ready_beside(version_id: UUID, pools: Sequence[Pool]) -> Counter[UUID]:
    counts: Counter[UUID] = Counter()
    for pool in pools:
        if version_id in pool.ready:
            counts.update(pool.ready)
    return counts


def _shares(version_id: UUID, counts: Mapping[UUID, int]) -> dict[UUID, float]:
    total = sum(counts.values())
    return {each: count / total if total else float(each == version_id) for each, count in counts.items()}


def problem_of_alternatives(alternatives: Sequence[UUID], weights: Mapping[UUID, int]) -> str | None:
    if len(set(alternatives)) < len(alternatives):
        return "an alternative is named once"
    return None if all(version in weights for version in alternatives) else "an alternative is one of the targets"


def content_sha256(snapshot: Snapshot) -> str:
    """Of what gateways act on: two snapshots that differ only in number and time are the same."""
    plain = msgspec.structs.replace(snapshot, generation=0, compiled_at=0.0)
    return hashlib.sha256(msgspec.json.encode(plain)).hexdigest()


def origins_of(web_url: str) -> list[str]:
    """The origins a browser may name for the console: on this machine both spellings of loopback."""
    parts = urlsplit(web_url)
    if parts.hostname not in _LOOPBACK:
        return [f"{parts.scheme}://{parts.netloc}"]
    port = f":{parts.port}" if parts.port else ""
    return [f"{parts.scheme}://{host}{port}" for host in _LOOPBACK]
