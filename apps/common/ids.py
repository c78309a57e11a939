"""UUIDv7 identifiers: they sort by the time they were made."""

import secrets
import time
import uuid

_VERSION_AND_VARIANT = (0x7 << 76) | (0b10 << 62)


def uuid7_from(unix_ms: int, random_bits: int) -> uuid.UUID:
    """RFC 9562: 48 bits of milliseconds, then 74 of the random bits around the version and the variant."""
    high, low = (random_bits >> 62) & 0xFFF, random_bits & ((1 << 62) - 1)
    return uuid.UUID(int=((unix_ms & ((1 << 48) - 1)) << 80) | (high << 64) | low | _VERSION_AND_VARIANT)


def new_id() -> uuid.UUID:
    return uuid7_from(time.time_ns() // 1_000_000, secrets.randbits(74))
