"""Server-sent events as bytes. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from apps.rest.policies.positions import Position

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"

HEARTBEAT = b": heartbeat\n\n"


def event_of(kind: str, content: Mapping[str, Any], position: Position | None = None) -> bytes:
    """With a position a client that was cut off goes on from there: its browser sends it as Last-Event-ID."""
    name = f"id: {position}\n" if position is not None else ""
    body = msgspec.json.encode({"type": kind, "object": content}).decode()
    return f"{name}event: {kind}\ndata: {body}\n\n".encode()


def retry_after(wait_ms: int) -> bytes:
    return f"retry: {wait_ms}\n\n".encode()
