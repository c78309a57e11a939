"""UUIDv7 identifiers: they sort by the time they were made."""

import secrets
import time
from uuid import UUID

from workers.contracts.ids import uuid7

_RANDOM_BITS = 74


def new_id() -> UUID:
    return UUID(uuid7(time.time(), secrets.randbits(_RANDOM_BITS)))


def read_uuid(text: str) -> UUID | None:
    """None for what is no UUID."""
    try:
        return UUID(text)
    except ValueError:
        return None
