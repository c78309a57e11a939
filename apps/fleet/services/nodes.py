from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from django.db import transaction
from django.db.models import Model, ProtectedError, Q

from apps.audit.services import record_change
from apps.common.actors import SYSTEM, Actor
from apps.common.credentials import AGENT_TOKEN, issue_credential
from apps.common.errors import ConflictError, InvalidInputError
from apps.common.saving import lock_row, save_checked
from apps.common.services import lead
from apps.common.tasks_by_name import enqueue_on_commit, enqueue_soon_on_commit
from apps.fleet.models import Accelerator, Node, NodeState, RemovedNode
from apps.fleet.policies.gpus import model_of
from apps.fleet.policies.labels import label_problem
from apps.fleet.policies.silence import LEASE, LEASE_MARGIN, SILENT_AFTER, NodeSight, newly_lost
from workers.contracts.telemetry import AcceleratorReport, DiskReport

RECONCILE = "placement.reconcile"
MOST_PROCESSES = 20
MOST_LINKS = 64
REMOVED_KEPT_FOR = timedelta(days=400)


@transaction.atomic
def join_node(
    *, actor: Actor, name: str, now: datetime, gateway_url: str = "", labels: dict[str, str] | None = None
) -> tuple[Node, str]:
    """The node's row and its agent token, which is nowhere else."""
    credential = issue_credential(AGENT_TOKEN)
    node = Node(
        name=name,
        gateway_url=gateway_url,
        labels=checked_labels(labels or {}),
        token_sha256=credential.sha256,
        created_at=now,
    )
    save_checked(node)
    record_change(actor=actor, action="node.joined", subject=node, now=now)
    enqueue_on_commit(RECONCILE)
    return node, credential.text


@transaction.atomic
def reissue_agent_token(*, actor: Actor, node: Node, now: datetime) -> str:
    """The old token stops working at the agent's next connection."""
    credential = issue_credential(AGENT_TOKEN)
    node.token_sha256 = credential.sha256
    node.save(update_fields=["token_sha256"])
    record_change(actor=actor, action="node.token_reissued", subject=node, now=now)
    return credential.text


def set_cordon(*, actor: Actor, node: Node, is_cordoned: bool, now: datetime) -> Node:
    action = "node.cordoned" if is_cordoned else "node.uncordoned"
    return _set_flags(actor=actor, node=node, action=action, now=now, is_cordoned=is_cordoned)


def set_drain(*, actor: Actor, node: Node, is_draining: bool, now: datetime) -> Node:
    """All its replicas finish what they have and go elsewhere. Taken back, those that have not stopped yet still go."""
    action = "node.drain_asked" if is_draining else "node.drain_cancelled"
    return _set_flags(actor=actor, node=node, action=action, now=now, is_draining=is_draining)


@transaction.atomic
def change_node(
    *,
    actor: Actor,
    node: Node,
    now: datetime,
    is_cordoned: bool | None = None,
    is_draining: bool | None = None,
    labels: dict[str, str] | None = None,
) -> Node:
    """None leaves it as it is."""
    if is_cordoned is not None:
        set_cordon(actor=actor, node=node, is_cordoned=is_cordoned, now=now)
    if is_draining is not None:
        set_drain(actor=actor, node=node, is_draining=is_draining, now=now)
    if labels is not None:
        label_node(actor=actor, node=node, labels=labels, now=now)
    return node


@transaction.atomic
def _set_flags(*, actor: Actor, node: Node, action: str, now: datetime, **flags: bool) -> Node:
    if all(getattr(node, name) == value for name, value in flags.items()):
        return node
    for name, value in flags.items():
        setattr(node, name, value)
    node.save(update_fields=list(flags))
    record_change(actor=actor, action=action, subject=node, now=now)
    enqueue_on_commit(RECONCILE)
    return node


@transaction.atomic
def label_node(*, actor: Actor, node: Node, labels: dict[str, str], now: datetime) -> Node:
    """All its labels, in place of those before. Replicas that run are not moved by them."""
    before, node.labels = node.labels, checked_labels(labels)
    node.save(update_fields=["labels"])
    record_change(
        actor=actor, action="node.labelled", subject=node, now=now, before={"labels": before}, after={"labels": labels}
    )
    enqueue_on_commit(RECONCILE)
    return node


def checked_labels(labels: dict[str, str]) -> dict[str, str]:
    problem = label_problem(labels)
    if problem:
        raise InvalidInputError(f"labels: {problem}", fields={"labels": problem})
    return labels


@transaction.atomic
def remove_node(*, actor: Actor, node: Node, now: datetime) -> None:
    """Its agent's token stops working, and its agent is told why. One that may still run something is not forgotten."""
    lock_row(node)
    replicas = _replicas_on(node)
    if replicas and not node.is_lost:
        raise ConflictError(f"{len(replicas)} replicas are on it: drain it first")
    record_change(actor=actor, action="node.removed", subject=node, now=now)
    for replica in replicas:
        replica.delete()
    RemovedNode.objects.filter(removed_at__lt=now - REMOVED_KEPT_FOR).delete()
    RemovedNode.objects.create(id=node.pk, name=node.name, token_sha256=node.token_sha256, removed_at=now)
    try:
        node.delete()
    except ProtectedError as error:
        raise ConflictError("a replica was just placed on it: cordon it and drain it first") from error
    enqueue_on_commit(RECONCILE)


def _replicas_on(node: Node) -> list[Model]:
    """Also those that only a part of is here, and whose leader is elsewhere."""
    is_here = Q(node=node) | Q(stages__contains=[{"node_id": str(node.pk)}])
    return list(node.replicas.model._default_manager.filter(is_here))  # noqa: SLF001 - Django's documented API


@transaction.atomic
def record_hello(
    *, node_id: UUID, boot_id: str, agent_version: str, gateway_url: str, inventory: dict[str, Any], now: datetime
) -> None:
    node = Node.objects.select_for_update().get(pk=node_id)
    node.boot_id, node.agent_version, node.inventory = boot_id[:64], agent_version[:50], inventory
    node.gateway_url = gateway_url[:200] or node.gateway_url
    node.state, node.last_seen_at, node.is_lost = NodeState.ONLINE, now, False
    node.save()
    enqueue_soon_on_commit(RECONCILE)


@transaction.atomic
def record_seen(*, node_ids: Sequence[UUID], now: datetime) -> list[UUID]:
    """Returns those that had been taken for silent: what they said before was forgotten."""
    nodes = Node.objects.filter(pk__in=node_ids)
    states = dict(nodes.select_for_update().order_by("pk").values_list("pk", "state"))
    nodes.update(state=NodeState.ONLINE, last_seen_at=now, is_lost=False)
    return [pk for pk, state in states.items() if state != NodeState.ONLINE]


def record_accelerators(*, node_id: UUID, reports: Sequence[AcceleratorReport]) -> None:
    """Rows for what is there now; those that are gone go. What has not changed is neither locked nor written.

    A link that is made anew tells all of it, and a thousand of them at once wait for each commit.
    """
    facts = {report.key[:80] or f"{report.kind[:10]}{report.index}": _facts_of(report) for report in reports}
    if not _differ(Accelerator.objects.filter(node_id=node_id), facts):
        return
    with transaction.atomic():
        _write_accelerators(node_id, facts)
        enqueue_soon_on_commit(RECONCILE)


def _differ(rows: Iterable[Accelerator], facts: Mapping[str, Mapping[str, Any]]) -> bool:
    known = {row.key: row for row in rows}
    return known.keys() != facts.keys() or any(_changed(known[key], facts[key]) for key in facts)


def _write_accelerators(node_id: UUID, facts: Mapping[str, Mapping[str, Any]]) -> None:
    known = {row.key: row for row in Accelerator.objects.select_for_update().filter(node_id=node_id)}
    new = [Accelerator(node_id=node_id, key=key, **values) for key, values in facts.items() if key not in known]
    Accelerator.objects.bulk_create(new)
    for key in facts.keys() & known.keys():
        _update_accelerator(known[key], facts[key])
    if gone := known.keys() - facts.keys():
        Accelerator.objects.filter(node_id=node_id, key__in=gone).delete()


def record_disk(*, node_id: UUID, report: DiskReport) -> None:
    """What was told when the link was made is as old as the link."""
    told = {"disk_free_bytes": report.free_bytes, "weights": report.weights}
    known = Node.objects.filter(pk=node_id).values_list("inventory", flat=True).first()
    if known is None or known == known | told:
        return
    with transaction.atomic():
        node = Node.objects.select_for_update().filter(pk=node_id).first()
        if node is not None:
            node.inventory |= told
            node.save(update_fields=["inventory"])
            enqueue_soon_on_commit(RECONCILE)


def _update_accelerator(row: Accelerator, facts: Mapping[str, Any]) -> None:
    changed = _changed(row, facts)
    for name in changed:
        setattr(row, name, facts[name])
    if changed:
        row.save(update_fields=changed)


def _changed(row: Accelerator, facts: Mapping[str, Any]) -> list[str]:
    return [name for name, value in facts.items() if getattr(row, name) != value]


def _facts_of(report: AcceleratorReport) -> dict[str, Any]:
    model = model_of(report.name, report.memory_total_bytes) if report.kind != "cpu" else None
    return {
        "kind": report.kind[:10],
        "index": report.index,
        "name": report.name[:200],
        "model": model.name if model else "",
        "profile": report.profile[:40],
        "memory_total_bytes": report.memory_total_bytes,
        "foreign_bytes": report.foreign_bytes or 0,
        "island": report.island,
        "numa": report.numa,
        "driver_version": report.driver_version[:40],
        "foreign_processes": msgspec.to_builtins(report.foreign_processes[:MOST_PROCESSES]),
        "problem": report.problem[:200],
        "nvlinks": report.nvlinks[:MOST_LINKS],
        "pci_bus_id": report.pci_bus_id[:20],
        "pcie_generation": report.pcie_generation,
        "pcie_width": report.pcie_width,
    }


def watch_nodes(*, holder: str, now: datetime) -> bool:
    """One turn; False when another process leads it."""
    with lead("fleet", holder=holder) as fence:
        if fence is None:
            return False
        mark_silent_nodes(now=now)
        mark_lost_nodes(now=now)
    return True


def mark_silent_nodes(*, now: datetime) -> list[UUID]:
    """Nodes that were online and have not been heard of; returns those that changed."""
    silent = Node.objects.filter(state=NodeState.ONLINE, last_seen_at__lt=now - SILENT_AFTER)
    ids = list(silent.values_list("pk", flat=True))
    Node.objects.filter(pk__in=ids, last_seen_at__lt=now - SILENT_AFTER).update(state=NodeState.OFFLINE)
    return ids


@transaction.atomic
def mark_lost_nodes(*, now: datetime) -> list[UUID]:
    """Those whose lease has run out, unless many are silent at once (policies/silence.py), or were heard since."""
    sights = [NodeSight(node_id=pk, last_seen_at=seen_at, is_lost=lost) for pk, seen_at, lost in _sights()]
    silent = Node.objects.filter(pk__in=newly_lost(sights, now), last_seen_at__lt=now - LEASE - LEASE_MARGIN)
    lost = list(silent.select_for_update())
    for node in lost:
        node.is_lost = True
        node.save(update_fields=["is_lost"])
        record_change(actor=SYSTEM, action="node.lost", subject=node, now=now)
    if lost:
        enqueue_on_commit(RECONCILE)
    return [node.pk for node in lost]


def _sights() -> Iterable[tuple[UUID, datetime | None, bool]]:
    return Node.objects.values_list("pk", "last_seen_at", "is_lost")
