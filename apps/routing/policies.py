"""Rules of routes and of what counts as the same snapshot. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from workers.contracts.snapshot import Snapshot

MAX_WEIGHT = 10_000
_LOOPBACK = ("localhost", "127.0.0.1")


def problem_of_weights(weights: Mapping[UUID, int]) -> str | None:
    if not weights:
        return "a route needs at least one target"
    if any(not 0 <= weight <= MAX_WEIGHT for weight in weights.values()):
        return f"a weight is a whole number from 0 to {MAX_WEIGHT}"
    return None if any(weights.values()) else "at least one weight must be above 0"


def problem_of_alternatives(alternatives: Sequence[UUID], weights: Mapping[UUID, int]) -> str | None:
    if len(set(alternatives)) < len(alternatives):
        return "an alternative is named once"
    return None if all(version in weights for version in alternatives) else "an alternative is one of the targets"


def content_sha256(snapshot: Snapshot) -> str:
    """Of what gateways act on: two snapshots that differ only in number and time are the same."""
    plain = msgspec.structs.replace(snapshot, generation=0, compiled_at=0.0)
    return hashlib.sha256(msgspec.json.encode(plain)).hexdigest()


def origins_of(web_url: str) -> list[str]:
    """The origins a browser may name for the console: on this machine both spellings of loopback."""
    parts = urlsplit(web_url)
    if parts.hostname not in _LOOPBACK:
        return [f"{parts.scheme}://{parts.netloc}"]
    port = f":{parts.port}" if parts.port else ""
    return [f"{parts.scheme}://{host}{port}" for host in _LOOPBACK]
