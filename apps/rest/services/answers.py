"""Answers kept for requests that are sent again with the same Idempotency-Key."""

import base64
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import OperationalError, connection, transaction

from apps.common.errors import ConflictError, DomainError
from apps.rest.models import KeptAnswer
from apps.rest.policies.idempotency import KEPT_FOR, key_digest, request_digest

_FERNET_KEY_BYTES = 32
_INSERT = """
INSERT INTO rest_keptanswer (key_sha256, request_sha256, expires_at) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING
"""


class KeyReusedError(DomainError):
    code = "idempotency_key_reused"
    status = 422


class StillRunningError(ConflictError):
    code = "still_running"


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: Any
    headers: dict[str, str]


@dataclass(frozen=True)
class Claim:
    """A key, taken for one request until its transaction ends."""

    key: str
    row: KeptAnswer


def claim_key(
    *, key: str, asker: str, method: str, path: str, body: bytes, now: datetime
) -> tuple[Claim, Answer | None]:
    """Within the request's transaction. With the answer that there has been already; None when this is the first.

    A second request with the key, while the first is under way, waits for its end, and is refused after a while.
    """
    digest, request = key_digest(key, asker), request_digest(method, path, body)
    KeptAnswer.objects.filter(pk=digest, expires_at__lte=now).delete()
    row = KeptAnswer(key_sha256=digest, request_sha256=request, expires_at=now + KEPT_FOR)
    if _is_first(row):
        return Claim(key, row), None
    kept = KeptAnswer.objects.get(pk=digest)
    if kept.request_sha256 != request:
        text = "this Idempotency-Key was used for another request"
        raise KeyReusedError(text, fields={"Idempotency-Key": "choose a new one for a new request"})
    return Claim(key, kept), _opened(kept, key)


def keep_answer(claim: Claim, answer: Answer) -> None:
    claim.row.sealed = _box(claim.key).encrypt(msgspec.json.encode(answer))
    claim.row.save(update_fields=["sealed"])


def _is_first(row: KeptAnswer) -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_INSERT, [row.key_sha256, row.request_sha256, row.expires_at])
            return bool(cursor.rowcount)
    except OperationalError as error:  # the lock timeout: the first has not ended
        raise StillRunningError("a request with this Idempotency-Key is under way; ask again") from error


def _opened(kept: KeptAnswer, key: str) -> Answer:
    return msgspec.json.decode(_box(key).decrypt(bytes(kept.sealed or b"")), type=Answer)


def _box(key: str) -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=_FERNET_KEY_BYTES, salt=None, info=b"tokenyard kept answer").derive(
        f"{settings.SECRET_KEY}{key}".encode()
    )
    return Fernet(base64.urlsafe_b64encode(derived))
