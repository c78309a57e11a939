"""`GET /v1/files` and `GET /v1/batches`: what a tenant has, on whichever node it lies."""

import re
from typing import Any

import msgspec

from workers.gateway.batches.forms import Listing, read_listing
from workers.gateway.batches.gathering import ask_one, gather
from workers.gateway.batches.listing import Mark, Part, merged
from workers.gateway.batches.places import node_tag
from workers.gateway.batches.sending import FileSending
from workers.gateway.batches.store import Store
from workers.gateway.batches.threads import StoreThread
from workers.gateway.errors import GatewayError
from workers.gateway.front.forwarding import unreachable
from workers.gateway.front.neighbours import Neighbours
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.heads import Headers
from workers.gateway.http.numbers import read_number
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.upstream import UpstreamError

# Towards another node: when that was made which the page follows.
AFTER = b"x-tokenyard-created-at"
# Towards the client: how many nodes are not in the list, as they did not answer.
MISSING_NODES = b"x-tokenyard-missing-nodes"
_MAX_TIME = 10**11
# What an id of ours consists of: another one is nobody's, and is not written into a request to another node.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _Made(msgspec.Struct):
    created_at: int


class Lists:
    """Each in one order over all nodes (listing.py)."""

    def __init__(self, store: StoreThread, neighbours: Neighbours, node_tag_here: str) -> None:
        self._store = store
        self._neighbours = neighbours
        self._tag = node_tag_here

    async def page(
        self, sending: FileSending, request: HttpRequest, tenant_id: str, kind: str, *, is_forwarded: bool
    ) -> tuple[dict[str, Any], Headers]:
        """And what is to be said of it in headers. To another gateway, `is_forwarded`, it is what is here alone."""
        listing = read_listing(request.head.query, kind)
        told = request.header(AFTER) if is_forwarded else b""
        mark = await self._mark(sending, request, listing, kind, told)
        here = await self._here(tenant_id, kind, listing, mark)
        others = [] if is_forwarded else self._neighbours.all()
        position = [(AFTER, b"%d" % mark.created_at)] if mark is not None else []
        parts = await gather(sending.client, request, others, [*position, *self._neighbours.own_words(request)])
        page = merged(
            [here, *(part for part in parts if part is not None)],
            limit=listing.limit,
            newest_first=listing.newest_first,
        )
        missing = parts.count(None)
        return page, [(MISSING_NODES, b"%d" % missing)] if missing else []

    async def _here(self, tenant_id: str, kind: str, listing: Listing, mark: Mark | None) -> Part:
        is_ours = mark is not None and mark.tag == self._tag
        found = await self._store.call(
            Store.list_files if kind == "files" else Store.list_batches,
            tenant_id,
            purpose=listing.purpose,
            after=listing.after if is_ours else "",
            bound=mark.bound(self._tag, newest_first=listing.newest_first) if mark and not is_ours else None,
            limit=listing.limit + 1,
            newest_first=listing.newest_first,
        )
        if found is None:
            raise not_found(kind, listing.after)
        return Part([one.shown() for one in found[: listing.limit]], has_more=len(found) > listing.limit)

    async def _mark(
        self, sending: FileSending, request: HttpRequest, listing: Listing, kind: str, told: bytes
    ) -> Mark | None:
        """Where the page begins; the node that keeps what it follows is asked, if that is another, unless it `told`."""
        tag = node_tag(listing.after)
        if not listing.after:
            return None
        if not _NAME.fullmatch(listing.after):
            raise not_found(kind, listing.after)
        if told:
            return Mark(read_number({AFTER: told}, AFTER, _MAX_TIME), tag)
        keeper = self._neighbours.keeper_of(listing.after)
        if keeper is not None:
            return Mark(await self._made_at(sending, request, keeper, kind, listing.after), tag)
        made = await self._store.call(Store.created_at, kind, listing.after)
        if made is None:
            raise not_found(kind, listing.after)
        return Mark(made, self._tag)

    async def _made_at(
        self, sending: FileSending, request: HttpRequest, keeper: EnginePool, kind: str, name: str
    ) -> int:
        path = f"/v1/{kind}/{name}".encode()
        words = self._neighbours.own_words(request, path)
        try:
            status, body = await ask_one(sending.client, request, keeper, path, words)
            if status != 404:  # noqa: PLR2004 - HTTP
                return msgspec.json.decode(body, type=_Made).created_at
        except (UpstreamError, msgspec.DecodeError):
            raise unreachable() from None
        raise not_found(kind, name)


def not_found(kind: str, name: str) -> GatewayError:
    if kind == "files":
        return GatewayError(404, "file_not_found", f"There is no file '{name[:100]}'.", param="file_id")
    return GatewayError(404, "batch_not_found", f"There is no batch '{name[:100]}'.", param="batch_id")
