"""Which price an accelerator has, and for how long it is there. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

OWNED, RESERVED = "owned", "reserved"
SILENCE = timedelta(minutes=2)


@dataclass(frozen=True)
class PriceLine:
    """`name` is a part of the accelerator's name; "" is every one. `node_id` None: on every node."""

    name: str
    node_id: UUID | None
    ownership: str
    hour_pico_usd: int
    effective_from: datetime


def line_for(lines: Sequence[PriceLine], *, name: str, node_id: UUID, at: datetime) -> PriceLine | None:
    """A node's own line first, then the longest name, then the newest; None when nothing was in force.

    `lines` in the order in which they were made: of two that are equal in that the later one holds.
    """
    fitting = [
        line
        for line in lines
        if line.effective_from <= at and line.node_id in (None, node_id) and line.name.lower() in name.lower()
    ]
    return max(reversed(fitting), key=_closeness, default=None)


def _closeness(line: PriceLine) -> tuple[bool, int, datetime]:
    return line.node_id is not None, len(line.name), line.effective_from


def paid_until(line: PriceLine | None, *, last_seen_at: datetime | None, now: datetime) -> datetime | None:
    """What is owned or reserved is always there, a spot one while its node is heard of. None: not at all."""
    if line is not None and line.ownership in (OWNED, RESERVED):
        return now
    return None if last_seen_at is None else min(last_seen_at, now)


def counted_until(until: datetime | None, *, before: datetime, now: datetime) -> datetime:
    """From where the next turn goes on. A node that has been silent for longer is not paid for when it comes back."""
    is_there = until is not None and now - until <= SILENCE
    return max(before, until) if is_there and until is not None else now
