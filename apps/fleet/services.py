from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.credentials import AGENT_TOKEN, issue_credential
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.fleet.models import Accelerator, Node, NodeState
from apps.fleet.policies import SILENT_AFTER
from workers.contracts.telemetry import AcceleratorReport

RECONCILE = "placement.reconcile"


@transaction.atomic
def join_node(*, actor: Actor, name: str, now: datetime, gateway_url: str = "") -> tuple[Node, str]:
    """The node's row and its agent token, which is nowhere else."""
    credential = issue_credential(AGENT_TOKEN)
    node = Node(name=name, gateway_url=gateway_url, token_sha256=credential.sha256, created_at=now)
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


@transaction.atomic
def set_cordon(*, actor: Actor, node: Node, is_cordoned: bool, now: datetime) -> Node:
    if node.is_cordoned == is_cordoned:
        return node
    node.is_cordoned = is_cordoned
    node.save(update_fields=["is_cordoned"])
    action = "node.cordoned" if is_cordoned else "node.uncordoned"
    record_change(actor=actor, action=action, subject=node, now=now)
    enqueue_on_commit(RECONCILE)
    return node


@transaction.atomic
def record_hello(
    *, node_id: UUID, boot_id: str, agent_version: str, gateway_url: str, inventory: dict[str, Any], now: datetime
) -> None:
    node = Node.objects.select_for_update().get(pk=node_id)
    node.boot_id, node.agent_version, node.inventory = boot_id[:64], agent_version[:50], inventory
    node.gateway_url = gateway_url[:200] or node.gateway_url
    node.state, node.last_seen_at = NodeState.ONLINE, now
    node.save()
    enqueue_on_commit(RECONCILE)


def record_seen(*, node_id: UUID, now: datetime) -> None:
    Node.objects.filter(pk=node_id).update(state=NodeState.ONLINE, last_seen_at=now)


@transaction.atomic
def record_accelerators(*, node_id: UUID, reports: Sequence[AcceleratorReport]) -> None:
    """Rows for what is there now; those that are gone go."""
    present = []
    for report in reports:
        row, _ = Accelerator.objects.update_or_create(
            node_id=node_id,
            kind=report.kind[:10],
            index=report.index,
            defaults={"name": report.name[:200], "memory_total_bytes": report.memory_total_bytes},
        )
        present.append(row.pk)
    Accelerator.objects.filter(node_id=node_id).exclude(pk__in=present).delete()


def mark_silent_nodes(*, now: datetime) -> list[UUID]:
    """Nodes that were online and have not been heard of; returns those that changed."""
    silent = Node.objects.filter(state=NodeState.ONLINE, last_seen_at__lt=now - SILENT_AFTER)
    ids = list(silent.values_list("pk", flat=True))
    Node.objects.filter(pk__in=ids, last_seen_at__lt=now - SILENT_AFTER).update(state=NodeState.OFFLINE)
    return ids
