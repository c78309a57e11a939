"""Desired states: what each node should run, written when it changes, with the fence of who wrote it."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from msgspec import structs

from apps.common.tasks_by_name import enqueue_on_commit, queue_of
from apps.common.valkey import wake_links_on_commit
from apps.deployments.models import HOST_KEY, DrainReason, NodeDesired, Replica
from apps.deployments.policies.parts import STOPPED, meeting_port
from apps.deployments.policies.replicas import spec_hash
from apps.fleet.models import Node
from apps.fleet.policies.silence import LEASE
from apps.registry.selectors import store_of
from workers.contracts.desired import DesiredState, ReplicaPart, ReplicaSpec
from workers.contracts.stores import StoreAddress

# A task of the agent.
RECONCILE_NOW = "agent.reconcile_now"
MOST_PEERS = 5

# By node, the address that other nodes know it by.
Hosts = Mapping[str, str]


class Told(NamedTuple):
    """A node and what it was last told to run; of a thousand, whole rows take fifteen times as long to read."""

    pk: UUID
    name: str
    gateway_url: str
    generation: int | None
    content_sha256: str | None


_TOLD = ("pk", "name", "gateway_url", "desired__generation", "desired__content_sha256")


def write_desired_states(*, fence: int, now: datetime) -> None:
    """A new generation for each node whose replicas changed."""
    nodes = [Told(*row) for row in Node.objects.values_list(*_TOLD)]
    ring = sorted((node.name, node.gateway_url) for node in nodes if node.gateway_url)
    hosts = hosts_of((node.pk, node.gateway_url) for node in nodes)
    specs: dict[str, list[ReplicaSpec]] = {}
    for replica in Replica.objects.exclude(node=None).select_related("revision__version").order_by("id"):
        for node_id in replica.node_ids or [str(replica.node_id)]:
            specs.setdefault(node_id, []).append(spec_of(replica, node_id, hosts))
    for node in nodes:
        _write_desired(node, specs.get(str(node.pk), []), _peers_of(node, ring), fence, now)


def hosts_of(gateway_urls: Iterable[tuple[UUID, str]]) -> Hosts:
    return {str(node_id): urlsplit(url).hostname or "" for node_id, url in gateway_urls}


def _peers_of(node: Told, ring: Sequence[tuple[str, str]]) -> list[str]:
    """A few gateways that follow it by name, so that a fleet's nodes watch each other in a ring."""
    begin = bisect_right(ring, node.name, key=itemgetter(0))
    following = (ring[(begin + step) % len(ring)][1] for step in range(min(MOST_PEERS + 1, len(ring))))
    return [url for url in following if url != node.gateway_url][:MOST_PEERS]


def _write_desired(node: Told, specs: list[ReplicaSpec], peers: list[str], fence: int, now: datetime) -> None:
    content = spec_hash({"replicas": msgspec.to_builtins(specs), "peers": peers})
    if node.content_sha256 == content:
        return
    generation = (node.generation or 0) + 1
    state = DesiredState(
        node_id=str(node.pk),
        generation=generation,
        fence=fence,
        replicas=specs,
        lease_s=LEASE.total_seconds() if peers else None,
        peers=peers,
    )
    NodeDesired.objects.update_or_create(
        node_id=node.pk,
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


def spec_of(replica: Replica, node_id: str, hosts: Hosts) -> ReplicaSpec:
    """What is wanted of a process that runs (drain, sleep) is no part of what it is."""
    revision = replica.revision
    process = revision.process | {"port": replica.port, "max_running_requests": revision.max_running_requests}
    place, part = _place_of(replica, node_id), _part_of(replica, node_id, hosts)
    run = part.run if part else replica.incarnation
    process |= {"incarnation": run} if run else {}
    meeting = {"part": msgspec.to_builtins(part)} if part else {}
    return ReplicaSpec(
        replica_id=str(replica.pk),
        deployment_id=str(replica.deployment_id),
        version_id=str(revision.version_id),
        spec_hash=spec_hash(process | place | meeting),
        is_draining=replica.is_draining and (part is None or part.leads or _leader_has_ended(replica)),
        is_asleep=replica.is_asleep and (part is None or part.leads),
        weights_bytes=revision.version.weight_bytes or 0,
        store=store_of(str(process["source"])),
        lora_stores=_stores_of(process.get("lora_adapters", {})),
        part=_as_told(replica, part) if part else None,
        **process,
        **place,
    )


def _stores_of(adapters: Mapping[str, str]) -> dict[str, StoreAddress]:
    return {name: store for name, source in adapters.items() if (store := store_of(source))}


def _part_of(replica: Replica, node_id: str, hosts: Hosts) -> ReplicaPart | None:
    """Followers stay in the run before while the leader finishes what it has there."""
    node_ids = replica.node_ids
    if len(node_ids) < 2:  # noqa: PLR2004 - one alone is no part
        return None
    rank = node_ids.index(node_id)
    run = replica.incarnation if rank == 0 else replica.follower_run
    return ReplicaPart(
        rank=rank,
        count=len(node_ids),
        run=run,
        host=hosts.get(node_id, ""),
        master_host=hosts.get(node_ids[0], ""),
        master_port=meeting_port(replica.pk, run),
        stages=len(replica.stages),
    )


def _as_told(replica: Replica, part: ReplicaPart) -> ReplicaPart:
    """With what changes while it is the same process."""
    return structs.replace(part, may_start=replica.started_run == part.run, is_broken=replica.is_broken)


def _leader_has_ended(replica: Replica) -> bool:
    """Or is on a node that nobody hears of any more."""
    told = replica.parts.get(replica.node_ids[0], {})
    return told.get("state") == STOPPED or replica.drain_reason == DrainReason.LOST


def _place_of(replica: Replica, node_id: str) -> dict[str, Any]:
    """{} for a replica on the host, as if there were no accelerators."""
    keys = [key for stage in replica.stages if stage["node_id"] == node_id for key in stage["keys"]]
    accelerators = [key for key in keys if key != HOST_KEY]
    if not accelerators:
        return {}
    return {
        "accelerators": accelerators,
        "memory_share": replica.memory_share,
        "reserved_bytes": replica.reserved_bytes,
    }
