"""Replicas whose engines are on several nodes: their parts begin together, and a part's end is the end of all."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Q

from apps.deployments.models import DrainReason, Replica, ReplicaState
from apps.deployments.policies.parts import MOST_BROKEN_RUNS, Move, PartView, RunView, judge_run
from apps.deployments.services.desired import Hosts, hosts_of, spec_of
from apps.deployments.services.states import change_state, note
from apps.fleet.models import Node

# A second stage in their JSON; whether that is on another node, the row says.
MAY_BE_ON_SEVERAL = Q(stages__1__isnull=False)


def mend_replicas_on_several_nodes(*, now: datetime) -> None:
    rows = Replica.objects.filter(MAY_BE_ON_SEVERAL).exclude(node=None)
    rows = rows.select_related("revision__version", "deployment")
    spread = [row for row in rows.order_by("id") if row.is_on_several]
    if not spread:
        return
    nodes = {str(node.pk): node for node in Node.objects.defer("inventory")}
    hosts = hosts_of((node.pk, node.gateway_url) for node in nodes.values())
    for row in spread:
        _mend(row, nodes, hosts, now)


def _mend(row: Replica, nodes: Mapping[str, Node], hosts: Hosts, now: datetime) -> None:
    if not row.is_draining and any(node_id not in nodes or nodes[node_id].is_lost for node_id in row.node_ids):
        _give_up_place(row, now)
    _let_others_follow(row, hosts)
    if row.is_draining or row.is_asleep:
        return
    verdict = judge_run(_run_of(row), _parts_of(row, nodes, hosts), now)
    match verdict.move:
        case Move.START:
            row.started_run = row.incarnation
            row.save(update_fields=["started_run"])
        case Move.BREAK:
            _break(row, verdict.reason, now)
        case Move.SETTLE:
            row.broken_runs = 0
            row.save(update_fields=["broken_runs"])


def _give_up_place(row: Replica, now: datetime) -> None:
    """What is left of it holds memory and serves nobody; another replica takes its place."""
    row.is_draining, row.is_asleep, row.drain_reason = True, False, DrainReason.LOST
    row.save(update_fields=["is_draining", "is_asleep", "drain_reason"])
    note(row, "gives up this place: one of its nodes is lost", now)


def _let_others_follow(row: Replica, hosts: Hosts) -> None:
    """Into the newest run, as soon as the leader has let go of the one before."""
    leader = row.node_ids[0]
    newest = spec_of(row, leader, hosts).spec_hash
    if row.follower_run != row.incarnation and _told(row, leader).get("spec_hash") == newest:
        row.follower_run = row.incarnation
        row.save(update_fields=["follower_run"])


def _break(row: Replica, reason: str, now: datetime) -> None:
    """All parts end at once, for none of them can finish what it has without the others."""
    row.incarnation += 1
    row.follower_run, row.is_broken = row.incarnation, True
    row.broken_runs, row.broken_at = row.broken_runs + 1, now
    row.has_given_up = row.broken_runs >= MOST_BROKEN_RUNS
    row.save(
        update_fields=["incarnation", "follower_run", "is_broken", "broken_runs", "broken_at", "has_given_up"],
    )
    after = "given up" if row.has_given_up else "all parts start again"
    change_state(row, ReplicaState.FAILED, f"{reason}; {after}", now)


def _run_of(row: Replica) -> RunView:
    return RunView(
        has_started=row.started_run == row.incarnation,
        broken_runs=row.broken_runs,
        broken_at=row.broken_at,
        ready_since=row.state_changed_at if row.state == ReplicaState.READY else None,
    )


def _parts_of(row: Replica, nodes: Mapping[str, Node], hosts: Hosts) -> list[PartView]:
    return [
        _part_of(row, rank, nodes[node_id].name, spec_of(row, node_id, hosts).spec_hash, _told(row, node_id))
        for rank, node_id in enumerate(row.node_ids)
        if node_id in nodes
    ]


def _part_of(row: Replica, rank: int, node_name: str, spec_hash: str, told: Mapping[str, Any]) -> PartView:
    is_of_run = told.get("spec_hash") == spec_hash and (rank == 0 or row.follower_run == row.incarnation)
    return PartView(
        node_name=node_name,
        rank=rank,
        state=told.get("state", ""),
        detail=told.get("detail", ""),
        is_of_run=is_of_run,
        is_prepared=bool(told.get("is_prepared")),
    )


def _told(row: Replica, node_id: str) -> dict[str, Any]:
    found = row.parts.get(node_id)
    return found if isinstance(found, dict) else {}
