"""Desired states: what each node should run, written when it changes, with the fence of who wrote it."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

import msgspec

from apps.common.tasks_by_name import enqueue_on_commit, queue_of
from apps.common.valkey import wake_links_on_commit
from apps.deployments.models import NodeDesired, Replica
from apps.deployments.policies.replicas import spec_hash
from apps.fleet.models import Node
from apps.fleet.policies.silence import LEASE
from apps.registry.selectors import store_of
from workers.contracts.desired import DesiredState, ReplicaSpec

# A task of the agent.
RECONCILE_NOW = "agent.reconcile_now"
MOST_PEERS = 5


def write_desired_states(*, fence: int, now: datetime) -> None:
    """A new generation for each node whose replicas changed."""
    nodes = list(Node.objects.select_related("desired").defer("inventory", "labels", "desired__body"))
    ring = sorted((node.name, node.gateway_url) for node in nodes if node.gateway_url)
    replicas: dict[Any, list[Replica]] = {}
    for replica in Replica.objects.exclude(node=None).select_related("revision__version").order_by("id"):
        replicas.setdefault(replica.node_id, []).append(replica)
    for node in nodes:
        _write_desired(node, replicas.get(node.pk, []), _peers_of(node, ring), fence, now)


def _peers_of(node: Node, ring: Sequence[tuple[str, str]]) -> list[str]:
    """A few gateways that follow it by name, so that a fleet's nodes watch each other in a ring."""
    begin = bisect_right(ring, node.name, key=itemgetter(0))
    following = (ring[(begin + step) % len(ring)][1] for step in range(min(MOST_PEERS + 1, len(ring))))
    return [url for url in following if url != node.gateway_url][:MOST_PEERS]


def _write_desired(node: Node, replicas: Sequence[Replica], peers: list[str], fence: int, now: datetime) -> None:
    specs = [_spec_of(replica) for replica in replicas]
    content = spec_hash({"replicas": msgspec.to_builtins(specs), "peers": peers})
    current: NodeDesired | None = getattr(node, "desired", None)
    if current is not None and current.content_sha256 == content:
        return
    generation = current.generation + 1 if current else 1
    state = DesiredState(
        node_id=str(node.pk),
        generation=generation,
        fence=fence,
        replicas=specs,
        lease_s=LEASE.total_seconds() if peers else None,
        peers=peers,
    )
    NodeDesired.objects.update_or_create(
        node=node,
        defaults={
            "generation": generation,
            "fence": fence,
            "content_sha256": content,
            "body": msgspec.json.encode(state).decode(),
            "written_at": now,
        },
    )
    wake_links_on_commit()
    enqueue_on_commit(RECONCILE_NOW, queue=queue_of(node.pk))


def _spec_of(replica: Replica) -> ReplicaSpec:
    """What is wanted of a process that runs (drain, sleep) is no part of what it is."""
    revision = replica.revision
    process = revision.process | {"port": replica.port, "max_running_requests": revision.max_running_requests}
    process |= {"incarnation": replica.incarnation} if replica.incarnation else {}
    place = _place_of(replica)
    return ReplicaSpec(
        replica_id=str(replica.pk),
        deployment_id=str(replica.deployment_id),
        version_id=str(revision.version_id),
        spec_hash=spec_hash(process | place),
        is_draining=replica.is_draining,
        is_asleep=replica.is_asleep,
        weights_bytes=revision.version.weight_bytes or 0,
        store=store_of(str(process["source"])),
        **process,
        **place,
    )


def _place_of(replica: Replica) -> dict[str, Any]:
    """{} for a replica on the host, as if there were no accelerators."""
    keys = [key for stage in replica.stages if stage["node_id"] == str(replica.node_id) for key in stage["keys"]]
    accelerators = [key for key in keys if key != "cpu"]
    if not accelerators:
        return {}
    return {
        "accelerators": accelerators,
        "memory_share": replica.memory_share,
        "reserved_bytes": replica.reserved_bytes,
    }
