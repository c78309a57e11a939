"""Lists of a tenant's files and batches over all nodes: one order, and pages of it that any node's gateway can give.

The order is that of creation; in the same second the nodes' tags decide, and on one node the order in which they came.
So whoever knows when a thing was made, and where, knows what of any node follows it.
"""

from collections.abc import Sequence
from heapq import merge
from typing import Any

from msgspec import Struct

from workers.gateway.batches.places import node_tag


class Mark(Struct, frozen=True):
    """Where a page begins: behind what was made then, on the node of that tag."""

    created_at: int
    tag: str

    def bound(self, tag: str, *, newest_first: bool) -> int:
        """What follows on the node of `tag` was made before this second or, with the oldest first, after it."""
        if newest_first:
            return self.created_at + 1 if tag < self.tag else self.created_at
        return self.created_at - 1 if tag > self.tag else self.created_at


class Part(Struct, frozen=True):
    """What one node has: the beginning of it, in order, and whether there is more."""

    data: list[dict[str, Any]]
    has_more: bool = False


def merged(parts: Sequence[Part], *, limit: int, newest_first: bool) -> dict[str, Any]:
    """The page that begins all of them."""
    shown = list(merge(*(part.data for part in parts), key=_place, reverse=newest_first))
    page = shown[:limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(shown) > limit or any(part.has_more for part in parts),
    }


def _place(shown: dict[str, Any]) -> tuple[int, str]:
    return shown["created_at"], node_tag(shown["id"])
