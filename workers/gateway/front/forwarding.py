"""A request for what another node keeps or runs: asked for there, once, and answered as it is there."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from workers.contracts.snapshot import Version
from workers.gateway.apis.interface import API
from workers.gateway.apis.openai import OpenAI
from workers.gateway.batches.places import node_tag, tag_of
from workers.gateway.errors import GatewayError
from workers.gateway.exchanges.answering import ClientAnswer
from workers.gateway.front.neighbour_watch import Heard, Silences, until_lost
from workers.gateway.http.call import Call
from workers.gateway.http.heads import AnswerHead, Headers, header_lines
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.http.turns import Turn
from workers.gateway.http.upstream import EnginePool, UpstreamError
from workers.gateway.payload.labels import CHOSEN_VERSION, FORWARDED, HAS_OTHERS, PROOF
from workers.gateway.snapshots.networks import peer_of

logger = logging.getLogger(__name__)

_OF_FILES = frozenset((b"authorization", b"x-api-key", b"content-type"))
# Of the hop, of the message's own framing, or ours to say.
_NOT_PASSED_ON = frozenset(
    b"connection expect forwarded host keep-alive proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade content-length x-forwarded-for x-request-id".split()
) | {FORWARDED, CHOSEN_VERSION, PROOF}
_API = OpenAI()
_MISDIRECTED = 421
# Given an address, and whether there are others to ask after it.
Message = Callable[[bytes, bool], bytes]


class ElsewhereError(Exception):
    """No engine of the version is here; `pools` are of the gateways whose nodes have some."""

    def __init__(self, version_id: str, pools: "list[EnginePool]", silences: Silences) -> None:
        super().__init__(version_id)
        self.version_id = version_id
        self.pools = pools
        self.silences = silences


class MisdirectedError(Exception):
    """No engine of what another gateway asked for is here any more, and it can ask another."""


class Neighbours:
    """The gateways of other nodes. `urls` are theirs now, by node id."""

    def __init__(self, node_id: str, turn: Turn, urls: Callable[[], dict[str, str]]) -> None:
        self._tag = tag_of(node_id)
        self._turn = turn
        self._urls = urls
        self._pools: dict[str, EnginePool] = {}
        self._turns = 0
        self.silences = Silences()

    def keeper_of(self, request: HttpRequest, name: str) -> EnginePool | None:
        """None of what is, or would be, here."""
        tag = node_tag(name)
        if tag in ("", self._tag) or request.header(FORWARDED):
            return None
        url = next((url for node_id, url in self._urls().items() if tag_of(node_id) == tag), "")
        return self._pool(url) if url else None

    def runs(self, version: Version | None) -> bool:
        """Whether an engine of it is on another node."""
        return version is not None and bool(self._others(version))

    def running(self, version: Version, stand_ins: Iterable[Version] = ()) -> list[EnginePool]:
        """Of the nodes that have engines of it, another one first each time; then of those that have a stand-in's."""
        others = self._others(version)
        self._turns += 1
        first = self._turns % len(others) if others else 0
        urls = [*others[first:], *others[:first], *(url for other in stand_ins for url in self._others(other))]
        return self.silences.last([self._pool(url) for url in dict.fromkeys(urls)])

    def _others(self, version: Version) -> list[str]:
        urls = self._urls() if version.node_ids else {}
        return [urls[each] for each in version.node_ids if each in urls and tag_of(each) != self._tag]

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
    """Owns the answer. The other gateway's bytes pass as they come, and no faster than the client takes them.

    `lost` hears of it where nobody could be asked. One that falls silent (neighbour_watch.py) before a byte of its
    answer has come makes way for the next, and so does one that has no engine of it any more.
    """

    def __init__(
        self,
        client: ClientConnection,
        request: HttpRequest,
        headers: Headers,
        message: Message,
        *,
        api: API = _API,
        lost: Callable[[GatewayError], None] | None = None,
        silences: Silences | None = None,
    ) -> None:
        self._client = client
        self._request = request
        self._message = message
        self._lost = lost
        self._answer = ClientAnswer(client, request, api=api, own_headers=headers)
        self._pools: list[EnginePool] = []
        self._call: Call | None = None
        self._head: AnswerHead | None = None
        self._was_read = False
        self._silences = silences or Silences()
        self._heard = Heard()
        self._watch: asyncio.Task[None] | None = None
        self._is_sent_back = False

    def begin(self, pools: Sequence[EnginePool]) -> None:
        """At the first of them that can be reached."""
        self._client.owner = self
        self._pools = list(pools)
        self._ask_next()

    def _ask_next(self) -> None:
        if self._pools:
            pool = self._pools.pop(0)
            self._call = Call(pool, self._message(pool.authority, bool(self._pools)), self)
            self._watch = asyncio.create_task(self._leave_when_silent(pool))
            self._call.begin()
            return
        if self._lost is not None:
            self._lost(unreachable())
        self._answer.send_error(unreachable())

    @property
    def is_client_stalled(self) -> bool:
        return self._client.write_paused_at is not None

    async def _leave_when_silent(self, pool: EnginePool) -> None:
        await until_lost(pool, self._heard)
        self._silences.note(pool)
        call, self._call = self._call, None
        if call is None:
            return
        if call.was_asked:
            self._lost = None  # the record is written there
        call.give_up()
        logger.warning("another node's gateway has fallen silent: %s", pool.authority.decode())
        if self._head is None:
            self._ask_next()
        else:
            self._break_off()

    def _break_off(self) -> None:
        """An answer that has begun is cut off: its framing tells the client that something is missing."""
        if self._answer.head is None:
            self._answer.send_error(unreachable())
        else:
            self._client.transport.abort()

    def _end_call(self) -> Call | None:
        call, self._call = self._call, None
        if self._watch is not None:
            self._watch.cancel()
        return call

    # -- from the client's connection

    def client_left(self) -> None:
        call = self._end_call()
        if call is not None:
            call.abandon()

    def client_paused(self) -> None:
        if self._call is not None:
            self._call.pause()

    def client_resumed(self) -> None:
        if self._call is not None:
            self._call.resume()

    # -- from the other gateway's

    def answer_began(self, head: AnswerHead) -> None:
        self._heard.count += 1
        if head.status == _MISDIRECTED and self._pools:
            self._is_sent_back = True
            return
        self._head = head
        if self._request.method == b"HEAD" and self._call is not None:
            self.client_left()
            self._client.respond_with(head.status, head.lines_downstream, b"")

    def answer_received(self, pieces: list[bytes]) -> None:
        self._heard.count += 1
        if self._head is not None:
            self._answer.send_part(self._head, b"".join(pieces))

    def answer_ended(self, pieces: list[bytes]) -> None:
        call = self._end_call()
        if call is not None:
            call.ended()
        if self._is_sent_back:
            self._is_sent_back = False
            self._ask_next()
        if self._head is None:
            return
        if self._answer.head is None:
            self._answer.send_whole(self._head, b"".join(pieces))
        else:
            self._answer.end(self._head, b"".join(pieces))

    def answer_failed(self, error: UpstreamError) -> None:
        call = self._call
        if call is None:
            return
        self._was_read |= self._head is not None or (call.was_asked and not error.was_reset)
        call.was_asked = self._was_read  # else nobody there has a record of it
        if self._head is None and not call.failed():
            return
        logger.warning("another node's gateway did not answer: %s", error)
        self._end_call()
        if call.was_asked:
            self._break_off()
        else:
            self._ask_next()


def message_for_engine(request: HttpRequest, authority: bytes, address: str, own: Headers, note: bytes) -> bytes:
    """All that the client said, but for what is of its connection to this gateway; and what the gateway itself says."""
    passed = [header for header in request.head.headers if header[0] not in _NOT_PASSED_ON]
    return _message(request, authority, address, [*passed, *own], note=note)


def message_for(request: HttpRequest, authority: bytes, address: str, headers: Headers, target: bytes = b"") -> bytes:
    """None of the client's headers but those that are needed: what it says of its own address is not to be believed."""
    passed = [header for header in request.head.headers if header[0] in _OF_FILES]
    return _message(request, authority, address, [*passed, *headers], target=target)


def _message(
    request: HttpRequest, authority: bytes, address: str, headers: Headers, *, target: bytes = b"", note: bytes = b"1"
) -> bytes:
    head = request.head
    lines = header_lines(headers)
    return b"%b %b HTTP/1.1\r\nhost: %b\r\n%b%b: %b\r\nx-forwarded-for: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        b"GET" if request.method == b"HEAD" else request.method,
        target or head.path + (b"?" + head.query if head.query else b""),
        authority,
        lines,
        FORWARDED,
        note,
        address.encode(),
        len(request.body),
        request.body,
    )


def begin(client: ClientConnection, request: HttpRequest, headers: Headers, pool: EnginePool) -> None:
    address = peer_of(client.transport)
    message: Message = lambda authority, _: message_for(request, authority, address, [])  # noqa: E731
    Forwarding(client, request, headers, message).begin([pool])


def begin_elsewhere(
    client: ClientConnection,
    request: HttpRequest,
    headers: Headers,
    elsewhere: ElsewhereError,
    *,
    api: API,
    request_id: str,
    proof: bytes,
    lost: Callable[[GatewayError], None],
) -> None:
    """The gateway there admits it, meters it and answers; here it leaves a record only where nobody could be asked."""
    address = peer_of(client.transport)

    own = [(CHOSEN_VERSION, elsewhere.version_id.encode()), (b"x-request-id", request_id.encode()), (PROOF, proof)]

    def message(authority: bytes, has_others: bool) -> bytes:
        return message_for_engine(request, authority, address, own, HAS_OTHERS if has_others else b"1")

    forwarding = Forwarding(client, request, headers, message, api=api, lost=lost, silences=elsewhere.silences)
    forwarding.begin(elsewhere.pools)


def unreachable() -> GatewayError:
    message = "The node that keeps or runs this does not answer now; ask again."
    return GatewayError(503, "node_unreachable", message, retry_after_s=5)
