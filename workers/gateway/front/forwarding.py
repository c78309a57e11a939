"""A request for what another node keeps or runs: asked for there, once, and answered as it is there."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from workers.gateway.apis.interface import API
from workers.gateway.apis.openai import OpenAI
from workers.gateway.errors import GatewayError
from workers.gateway.exchanges.answering import ClientAnswer
from workers.gateway.front.neighbour_watch import Heard, Silences, until_lost
from workers.gateway.front.neighbours import ElsewhereError
from workers.gateway.http.call import Call
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.heads import AnswerHead, Headers, header_lines
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.http.upstream import UpstreamError
from workers.gateway.payload.labels import CHOSEN_VERSION, COUNTED, FORWARDED, HAS_OTHERS, LAST, PROOF, RECORD
from workers.gateway.snapshots.networks import peer_of

logger = logging.getLogger(__name__)

_OF_FILES = frozenset((b"authorization", b"x-api-key", b"content-type"))
# Of the hop, of the message's own framing, or ours to say.
_NOT_PASSED_ON = frozenset(
    b"connection expect forwarded host keep-alive proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade content-length x-forwarded-for x-request-id".split()
) | {FORWARDED, CHOSEN_VERSION, PROOF, COUNTED, RECORD}
_API = OpenAI()
_MISDIRECTED = 421
# Given an address, and whether there are others to ask after it.
Message = Callable[[bytes, bool], bytes]
# Given why nobody could be asked, or None where all have sent it back.
Back = Callable[[GatewayError | None], None]
# Given the answer of one that has sent it back.
Refused = Callable[[AnswerHead], None]


class Forwarding:
    """Owns the answer. The other gateway's bytes pass as they come, and no faster than the client takes them.

    `lost` hears of it where nobody has answered. One that dies or falls silent (neighbour_watch.py) before a byte of
    its answer has come makes way for the next, and so does one that has no engine of it any more: which of them has a
    record nobody can know, so all write the same one. After the last of these `back` has the client again.
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
        back: Back | None = None,
        sent_back: Refused | None = None,
        silences: Silences | None = None,
    ) -> None:
        self._client = client
        self._request = request
        self._message = message
        self._lost = lost
        self._back = back
        self._note_refusal = sent_back
        self._answer = ClientAnswer(client, request, api=api, own_headers=headers)
        self._pools: list[EnginePool] = []
        self._call: Call | None = None
        self._head: AnswerHead | None = None
        self._silences = silences or Silences()
        self._heard = Heard()
        self._watch: asyncio.Task[None] | None = None
        self._is_sent_back = self._was_sent_back = False

    def begin(self, pools: Sequence[EnginePool]) -> None:
        """At the first of them that can be reached."""
        self._client.owner = self
        self._pools = list(pools)
        self._ask_next()

    def _ask_next(self) -> None:
        self._is_sent_back = False
        if self._pools:
            pool = self._pools.pop(0)
            self._call = Call(pool, self._message(pool.authority, bool(self._pools)), self)
            self._watch = asyncio.create_task(self._leave_when_silent(pool))
            self._call.begin()
        elif self._back is not None and (self._was_sent_back or self._lost is not None):
            self._client.owner = None
            self._back(None if self._was_sent_back else unreachable())
        else:
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
        call.give_up()
        logger.warning("another node's gateway has fallen silent: %s", pool.authority.decode())
        if self._head is None:
            self._ask_next()
        else:
            self._break_off()

    def _break_off(self) -> None:
        """An answer that has begun is cut off: its framing tells the client that something is missing.

        What it has used by then stands in the journal over there.
        """
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
        if head.status == _MISDIRECTED:
            self._is_sent_back = self._was_sent_back = True
            if self._note_refusal is not None:
                self._note_refusal(head)
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
        if self._is_sent_back:  # which was all that it had to say
            self._end_call()
            self._ask_next()
            return
        if self._head is None and not call.failed():
            return
        logger.warning("another node's gateway did not answer: %s", error)
        self._end_call()
        if self._head is None:
            self._ask_next()
        else:
            self._break_off()


def message_for_engine(request: HttpRequest, authority: bytes, address: str, own: Headers, note: bytes) -> bytes:
    """All that the client said, but for what is of its connection to this gateway; and what the gateway itself says."""
    not_passed_on = _NOT_PASSED_ON.union([name for name, _ in own])
    passed = [header for header in request.head.headers if header[0] not in not_passed_on]
    return _message(request, authority, address, [*passed, *own], note=note)


def message_for(request: HttpRequest, authority: bytes, address: str, headers: Headers, target: bytes = b"") -> bytes:
    """None of the client's headers but those that are needed: what it says of its own address is not to be believed."""
    passed = [header for header in request.head.headers if header[0] in _OF_FILES]
    return _message(request, authority, address, [*passed, *headers], target=target)


def _message(
    request: HttpRequest, authority: bytes, address: str, headers: Headers, *, target: bytes = b"", note: bytes = b"1"
) -> bytes:
    """With the way that the request has come, of which the other gateway believes what its trusted proxies say."""
    head = request.head
    lines, way = header_lines(headers), b", ".join([*request.values(b"x-forwarded-for"), address.encode()])
    return b"%b %b HTTP/1.1\r\nhost: %b\r\n%b%b: %b\r\nx-forwarded-for: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        b"GET" if request.method == b"HEAD" else request.method,
        target or head.target,
        authority,
        lines,
        FORWARDED,
        note,
        way,
        len(request.body),
        request.body,
    )


def begin(client: ClientConnection, request: HttpRequest, headers: Headers, pool: EnginePool, own: Headers) -> None:
    """`own` is what this gateway says beside the client."""
    address = peer_of(client.transport)
    message: Message = lambda authority, _: message_for(request, authority, address, own)  # noqa: E731
    Forwarding(client, request, headers, message).begin([pool])


def begin_elsewhere(
    client: ClientConnection,
    request: HttpRequest,
    headers: Headers,
    elsewhere: ElsewhereError,
    *,
    api: API,
    say: Callable[[], Headers],
    lost: Callable[[GatewayError], None],
    back: Back,
    sent_back: Refused,
    is_first_round: bool,
) -> None:
    """The gateway there admits it, meters it and answers; here it leaves a record only where nobody could be asked.

    `say` is what this gateway says of it, in place of the client, each time that it asks. In the first round nobody
    keeps it who has no engine of it.
    """
    address = peer_of(client.transport)
    chosen = (CHOSEN_VERSION, elsewhere.version_id.encode())

    def message(authority: bytes, has_others: bool) -> bytes:
        note = HAS_OTHERS if has_others or is_first_round else LAST
        return message_for_engine(request, authority, address, [chosen, *say()], note)

    forwarding = Forwarding(
        client,
        request,
        headers,
        message,
        api=api,
        lost=lost,
        back=back,
        sent_back=sent_back,
        silences=elsewhere.silences,
    )
    forwarding.begin(elsewhere.pools)


def unreachable() -> GatewayError:
    message = "The node that keeps or runs this does not answer now; ask again."
    return GatewayError(503, "node_unreachable", message, retry_after_s=5)
