"""One-time tokens by which machines join."""

from datetime import datetime, timedelta

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import SYSTEM, Actor
from apps.common.credentials import JOIN_TOKEN, issue_credential, sha256_of
from apps.common.errors import ConflictError, NotAllowedError
from apps.fleet.models import JoinToken, Node
from apps.fleet.services.nodes import checked_labels, join_node

LIFETIME = timedelta(hours=1)


@transaction.atomic
def create_join_token(
    *, actor: Actor, now: datetime, labels: dict[str, str] | None = None, lifetime: timedelta = LIFETIME
) -> tuple[JoinToken, str]:
    """The token's row and its text, which is nowhere else. Nodes that join by it get `labels`."""
    credential = issue_credential(JOIN_TOKEN)
    token = JoinToken.objects.create(
        prefix=credential.prefix,
        token_sha256=credential.sha256,
        labels=checked_labels(labels or {}),
        created_by=actor.name,
        created_at=now,
        expires_at=now + lifetime,
    )
    record_change(actor=actor, action="join_token.created", subject=token, now=now)
    return token, credential.text


@transaction.atomic
def redeem_join_token(*, text: str, name: str, now: datetime, gateway_url: str = "") -> tuple[Node, str]:
    """The new node and its agent token. A token that is unknown, used or expired is refused in the same words."""
    token = JoinToken.objects.select_for_update().filter(token_sha256=sha256_of(text)).first()
    if token is None or token.used_at is not None or token.expires_at <= now:
        raise NotAllowedError("this join token is not known, has been used, or has expired")
    node, agent_token = join_node(actor=SYSTEM, name=name, gateway_url=gateway_url, labels=token.labels, now=now)
    token.used_at, token.node = now, node
    token.save(update_fields=["used_at", "node"])
    return node, agent_token


@transaction.atomic
def revoke_join_token(*, actor: Actor, token: JoinToken, now: datetime) -> None:
    if token.used_at is not None:
        raise ConflictError("it has been used")
    record_change(actor=actor, action="join_token.revoked", subject=token, now=now)
    token.delete()
