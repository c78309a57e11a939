"""What tells one request from another when both carry the same Idempotency-Key. Pure."""

import hashlib
from datetime import timedelta

KEPT_FOR = timedelta(hours=24)
LONGEST_KEY = 255


def key_problem(key: str) -> str:
    if not 0 < len(key) <= LONGEST_KEY or not key.isascii() or not key.isprintable():
        return f"an Idempotency-Key has 1 to {LONGEST_KEY} printable ASCII characters"
    return ""


def key_digest(key: str, asker: str) -> str:
    """Keys of one asker are nothing to another."""
    return _digest(asker.encode(), key.encode())


def request_digest(method: str, path: str, body: bytes) -> str:
    return _digest(method.encode(), path.encode(), body)


def _digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8))
        found.update(part)
    return found.hexdigest()
