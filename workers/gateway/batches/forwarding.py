"""A request for a file or batch that another node keeps: asked for there, once, and answered as it is there."""

import asyncio
import logging
from collections.abc import Callable

from workers.gateway.answering import ClientAnswer
from workers.gateway.apis.openai import OpenAI
from workers.gateway.batches.places import node_tag, tag_of
from workers.gateway.errors import GatewayError
from workers.gateway.heads import AnswerHead, Headers, header_lines
from workers.gateway.networks import peer_of
from workers.gateway.requests import HttpRequest
from workers.gateway.server import ClientConnection
from workers.gateway.turns import Turn
from workers.gateway.upstream import EnginePool, UpstreamConnection, UpstreamError

logger = logging.getLogger(__name__)

# So that two gateways that disagree on who keeps what do not send a request to and fro.
FORWARDED = b"x-tokenyard-forwarded"
_PASSED_ON = frozenset((b"authorization", b"x-api-key", b"content-type"))
_API = OpenAI()


class Neighbours:
    """The gateways of other nodes. `urls` are theirs now, by node id."""

    def __init__(self, node_id: str, turn: Turn, urls: Callable[[], dict[str, str]]) -> None:
        self._tag = tag_of(node_id)
        self._turn = turn
        self._urls = urls
        self._pools: dict[str, EnginePool] = {}

    def keeper_of(self, request: HttpRequest, name: str) -> EnginePool | None:
        """None of what is, or would be, here."""
        tag = node_tag(name)
        if tag in ("", self._tag) or request.header(FORWARDED):
            return None
        url = next((url for node_id, url in self._urls().items() if tag_of(node_id) == tag), "")
        return self._pool(url) if url else None

    def all(self) -> list[EnginePool]:
        """Of all other nodes."""
        return [self._pool(url) for node_id, url in self._urls().items() if url and tag_of(node_id) != self._tag]

    def _pool(self, url: str) -> EnginePool:
        pool = self._pools.get(url)
        if pool is None:
            pool = self._pools[url] = EnginePool(url, self._turn)
        return pool

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


class Forwarding:
    """Owns the answer. The other gateway's bytes pass as they come, and no faster than the client takes them."""

    def __init__(self, client: ClientConnection, request: HttpRequest, headers: Headers) -> None:
        self._client = client
        self._request = request
        self._answer = ClientAnswer(client, request, api=_API, own_headers=headers)
        self._upstream: UpstreamConnection | None = None
        self._head: AnswerHead | None = None
        self._is_over = False

    async def run(self, pool: EnginePool) -> None:
        try:
            connection = pool.take_idle() or await pool.connect()
        except UpstreamError as error:
            self.answer_failed(error)
            return
        if self._is_over:
            pool.put_back(connection)
            return
        self._upstream = connection
        connection.ask(message_for(self._request, pool.authority, peer_of(self._client.transport), []), self)

    # -- from the client's connection

    def client_left(self) -> None:
        self._is_over = True
        if self._upstream is not None:
            self._upstream.abandon()

    def client_paused(self) -> None:
        if self._upstream is not None:
            self._upstream.transport.pause_reading()

    def client_resumed(self) -> None:
        if self._upstream is not None:
            self._upstream.transport.resume_reading()

    # -- from the other gateway's

    def answer_began(self, head: AnswerHead) -> None:
        self._head = head
        if self._request.method == b"HEAD" and self._upstream is not None:
            self._is_over = True
            self._upstream.abandon()
            self._client.respond_with(head.status, head.lines_downstream, b"")

    def answer_received(self, pieces: list[bytes]) -> None:
        if self._head is not None:
            self._answer.send_part(self._head, b"".join(pieces))

    def answer_ended(self, pieces: list[bytes]) -> None:
        self._upstream = None
        self._is_over = True
        if self._head is None:
            return
        if self._answer.head is None:
            self._answer.send_whole(self._head, b"".join(pieces))
        else:
            self._answer.end(self._head, b"".join(pieces))

    def answer_failed(self, error: UpstreamError) -> None:
        """An answer that has begun is cut off: its framing tells the client that something is missing."""
        if self._is_over:
            return
        self._is_over = True
        logger.warning("another node's gateway did not answer: %s", error)
        if self._answer.head is None:
            self._answer.send_error(unreachable())
        else:
            self._client.transport.abort()


def message_for(request: HttpRequest, authority: bytes, address: str, headers: Headers, target: bytes = b"") -> bytes:
    """None of the client's headers but those that are needed: what it says of its own address is not to be believed."""
    head = request.head
    lines = header_lines([*(header for header in head.headers if header[0] in _PASSED_ON), *headers])
    return b"%b %b HTTP/1.1\r\nhost: %b\r\n%b%b: 1\r\nx-forwarded-for: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        b"GET" if request.method == b"HEAD" else request.method,
        target or head.path + (b"?" + head.query if head.query else b""),
        authority,
        lines,
        FORWARDED,
        address.encode(),
        len(request.body),
        request.body,
    )


def begin(client: ClientConnection, request: HttpRequest, headers: Headers, pool: EnginePool) -> "asyncio.Task[None]":
    forwarding = Forwarding(client, request, headers)
    client.owner = forwarding
    return asyncio.create_task(forwarding.run(pool))


def unreachable() -> GatewayError:
    message = "The node that keeps this file or batch does not answer now."
    return GatewayError(503, "node_unreachable", message, retry_after_s=5)
