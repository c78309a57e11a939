"""Kept prompts: sealed wherever they lie, opened only for those whom their tenant's roles let read them."""

import base64
import hashlib
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from django.conf import settings

from apps.common.actors import Actor
from apps.common.errors import NotAllowedError, NotFoundError
from apps.telemetry.models import KeptPrompt, PromptChoice
from apps.tenants.matrix import Permission, may
from apps.tenants.selectors import get_tenant
from workers.contracts.prompts import UnreadablePromptError, open_prompt

# Of the newest so many a search looks at the text, which takes about as many tenths of a millisecond.
MAX_SEARCHED = 2000


def find_choice(tenant_id: UUID) -> PromptChoice | None:
    return PromptChoice.objects.filter(tenant_id=tenant_id).first()


def list_keeping_tenants() -> set[UUID]:
    return set(PromptChoice.objects.values_list("tenant_id", flat=True))


def has_prompt(*, actor: Actor, record_id: UUID) -> bool:
    """Whether there is one that the actor may read."""
    kept = KeptPrompt.objects.filter(record_id=record_id).only("tenant_id").first()
    return kept is not None and may(actor, Permission.READ_PROMPTS, kept.tenant_id)


def get_kept_prompt(*, actor: Actor, record_id: UUID) -> KeptPrompt:
    """Raises NotFoundError, for a stranger, too, and NotAllowedError for who may see the request but not its prompt."""
    kept = KeptPrompt.objects.select_related("tenant").filter(record_id=record_id).first()
    if kept is None:
        raise NotFoundError("no prompt is kept of that request")
    get_tenant(actor=actor, tenant_id=kept.tenant_id)
    if not may(actor, Permission.READ_PROMPTS, kept.tenant_id):
        raise NotAllowedError("your role does not allow reading prompts")
    return kept


def opened(kept: KeptPrompt) -> str:
    try:
        text = open_prompt(
            kept.sealed,
            record_id=str(kept.record_id),
            tenant_id=str(kept.tenant_id),
            private_key=_private_key(settings.SECRET_KEY),
        )
    except UnreadablePromptError as error:
        raise NotFoundError("this prompt cannot be opened: it was kept under another secret key") from error
    return text.decode("utf-8", "replace")


def records_with_text(*, actor: Actor, tenant_id: UUID, words: str, start: datetime, end: datetime) -> set[UUID]:
    """Usage records whose kept prompt has the words in it, whatever their case, among the newest MAX_SEARCHED."""
    if not may(actor, Permission.READ_PROMPTS, tenant_id):
        raise NotAllowedError("your role does not allow reading prompts")
    found = KeptPrompt.objects.filter(tenant_id=tenant_id, arrived_at__gte=start, arrived_at__lt=end)
    return {kept.record_id for kept in found.order_by("-arrived_at")[:MAX_SEARCHED] if _has(kept, words.casefold())}


def prompt_key_text() -> str:
    """The half that gateways seal with."""
    return base64.b64encode(_private_key(settings.SECRET_KEY).public_key().public_bytes_raw()).decode()


def readable_tenants(*, actor: Actor) -> list[UUID]:
    """Those that keep prompts which the actor may read."""
    return sorted(each for each in list_keeping_tenants() if may(actor, Permission.READ_PROMPTS, each))


def _has(kept: KeptPrompt, words: str) -> bool:
    try:
        return words in opened(kept).casefold()
    except NotFoundError:
        return False


@lru_cache(maxsize=1)
def _private_key(secret: str) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(hashlib.sha256(b"kept prompts" + secret.encode()).digest())
