"""Items of batches whose model runs on other nodes only: asked for there, kept and billed here.

What comes back is the answer and the record that goes with it, as from a process of our own: the other node writes no
record, so whoever asks must prove to be a gateway. Where the answer is lost on the way, by a death at either end,
nothing was kept and nothing is billed, and the item is asked for again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from workers.gateway.batches.errands import Asker, Calling, Deputy, ItemErrand, Reply, ids_of, refused
from workers.gateway.batches.gathering import Asking
from workers.gateway.batches.loopback import LoopbackAnswer
from workers.gateway.batches.shapes import Batch, Item
from workers.gateway.errors import bad_request, path_unknown
from workers.gateway.front.forwarding import unreachable
from workers.gateway.front.neighbour_watch import Heard, Silences, until_lost
from workers.gateway.front.neighbours import Neighbours
from workers.gateway.front.proofs import is_proven, prove
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.http.upstream import UpstreamError
from workers.gateway.payload.labels import PROOF
from workers.gateway.sisters.questions import model_in
from workers.gateway.snapshots.directory import Directory, Grant

logger = logging.getLogger(__name__)

ITEMS = b"/peers/items"
WITHDRAWALS = b"/peers/withdrawals"
# An item may wait long in the last class. After so much longer it is asked for anew.
ANSWER_WITHIN_S = 3600.0
WITHDRAW_WITHIN_S = 5.0
_OK, _TOO_LARGE = 200, 413

_encode = msgspec.msgpack.Encoder().encode
_decode_errand = msgspec.msgpack.Decoder(ItemErrand).decode
_decode_reply = msgspec.msgpack.Decoder(Reply).decode


class PeerErrands(Deputy):
    """As an `Asker`; `own` asks for what runs here. `runs_here`: an engine of the version is this node's."""

    def __init__(
        self,
        own: Asker,
        read_directory: Callable[[], Directory | None],
        neighbours: Neighbours,
        runs_here: Callable[[str], bool],
        unix_time: Callable[[], float],
    ) -> None:
        super().__init__(own)
        self._read_directory = read_directory
        self._neighbours = neighbours
        self._runs_here = runs_here
        self._unix_time = unix_time

    def is_elsewhere(self, item: Item) -> bool:
        return bool(self._elsewhere(item))

    def begin(self, batch: Batch, item: Item, grant: Grant) -> Calling:
        directory, pools = self._read_directory(), self._elsewhere(item)
        if directory is None or not pools:
            return self._own.begin(batch, item, grant)
        secret, silences = directory.snapshot.peer_secret, self._neighbours.silences
        return _PeersCall(pools, secret, ItemErrand(batch, item), self._unix_time, silences)

    def _elsewhere(self, item: Item) -> list[EnginePool]:
        """The nodes that have engines for it, where this one has none of any version that it may get."""
        directory = self._read_directory()
        if directory is None or not directory.has_other_nodes or not directory.snapshot.peer_secret:
            return []
        route = directory.routes.get(model_in(item.body))
        versions = [target.version_id for target in route.targets if target.weight > 0] if route is not None else []
        if any(self._runs_here(version_id) for version_id in versions):
            return []
        known = [directory.versions[version_id] for version_id in versions if version_id in directory.versions]
        return [pool for version in known for pool in self._neighbours.running(version)]


class _PeersCall:
    """The first of the nodes that can be reached."""

    def __init__(
        self,
        pools: Sequence[EnginePool],
        secret: str,
        errand: ItemErrand,
        unix_time: Callable[[], float],
        silences: Silences,
    ) -> None:
        self._pools = pools
        self._silences = silences
        self._secret = secret
        self._errand = errand
        self._unix_time = unix_time
        self._is_withdrawn = False
        self._withdrawing: asyncio.Task[None] | None = None
        self._asked: tuple[EnginePool, Asking] | None = None

    async def reply(self) -> Reply:
        body = _encode(self._errand)
        for pool in self._pools:
            asking = Asking()
            self._asked = (pool, asking)
            try:
                status, content = await self._ask(pool, asking, body)
                return _decode_reply(content) if status == _OK else _not_taken(status, content)
            except (UpstreamError, TimeoutError, msgspec.DecodeError) as error:
                logger.warning("another node did not answer an item of %s: %s", self._errand.batch.batch_id, error)
            if self._is_withdrawn:
                return Reply(None, None)
        return refused(unreachable())

    async def _ask(self, pool: EnginePool, asking: Asking, body: bytes) -> tuple[int, bytes]:
        watching = asyncio.create_task(self._give_up_when_lost(pool, asking))
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                return await asking.run(pool, self._message(pool, ITEMS, body))
        finally:
            watching.cancel()

    async def _give_up_when_lost(self, pool: EnginePool, asking: Asking) -> None:
        """What a node that is cut off still does of the item nobody gets, and nobody is billed."""
        await until_lost(pool, Heard())
        self._silences.note(pool)
        asking.give_up("it is silent")

    def withdraw(self) -> None:
        """The node that has it still says what was used, if it does so soon."""
        if not self._is_withdrawn:
            self._is_withdrawn = True
            self._withdrawing = asyncio.create_task(self._withdraw())

    async def _withdraw(self) -> None:
        if self._asked is None:
            return
        pool, asking = self._asked
        record_id = ids_of(self._errand.batch, self._errand.item.number).record_id
        try:
            async with asyncio.timeout(WITHDRAW_WITHIN_S):
                await Asking().run(pool, self._message(pool, WITHDRAWALS, record_id.encode()))
                await asking.answer
        except (UpstreamError, TimeoutError) as error:
            logger.warning("an item of %s was withdrawn without a word: %s", self._errand.batch.batch_id, error)
            asking.give_up("withdrawn")

    def _message(self, pool: EnginePool, path: bytes, body: bytes) -> bytes:
        proof = prove(self._secret, path, body, self._unix_time())
        head = b"POST %b HTTP/1.1\r\nhost: %b\r\n%b: %b\r\ncontent-length: %d\r\n\r\n"
        return head % (path, pool.authority, PROOF, proof, len(body)) + body


def _not_taken(status: int, content: bytes) -> Reply:
    """What is too large there is so for ever; all else may change, as when one of two nodes has a newer snapshot."""
    if status == _TOO_LARGE:
        return Reply(LoopbackAnswer(status, {}, content), None)
    return refused(unreachable())


class PeerItems:
    """The side of the node that has the engines. To who cannot prove to be a gateway there is nothing here."""

    def __init__(
        self, asker: Asker, read_directory: Callable[[], Directory | None], unix_time: Callable[[], float]
    ) -> None:
        self._asker = asker
        self._read_directory = read_directory
        self._unix_time = unix_time
        self._running: dict[str, Calling] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, client: ClientConnection, request: HttpRequest) -> None:
        self._require_proof(request)
        try:
            errand = _decode_errand(request.body)
        except msgspec.DecodeError as error:  # of another release
            raise bad_request("invalid_request", "This is no item of a batch.") from error
        answering = _Answering(client)
        client.owner = answering
        task = asyncio.create_task(self._answer(answering, errand))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def withdraw(self, client: ClientConnection, request: HttpRequest) -> None:
        self._require_proof(request)
        call = self._running.get(request.body.decode())
        if call is not None:
            call.withdraw()
        client.respond(_OK, [], b"")

    def _require_proof(self, request: HttpRequest) -> None:
        directory = self._read_directory()
        secret = directory.snapshot.peer_secret if directory is not None else ""
        if not is_proven(secret, request.path, request.body, request.header(PROOF), self._unix_time()):
            raise path_unknown(request.path.decode())

    async def _answer(self, answering: "_Answering", errand: ItemErrand) -> None:
        grant = self._asker.grant_of(errand.batch)
        if grant is None:
            answering.respond(refused(unreachable()))  # this node may know less than the one that asks
            return
        record_id = ids_of(errand.batch, errand.item.number).record_id
        if (earlier := self._running.get(record_id)) is not None:
            earlier.withdraw()  # who asked for it then is gone
        call = answering.call = self._running[record_id] = self._asker.begin(errand.batch, errand.item, grant)
        try:
            answering.respond(await call.reply())
        finally:
            if self._running.get(record_id) is call:
                del self._running[record_id]


class _Answering:
    """Owns the answer; what another node does not wait for any more is withdrawn, and leaves nothing."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._is_gone = False
        self.call: Calling | None = None

    def respond(self, reply: Reply) -> None:
        if not self._is_gone:
            self._client.respond(_OK, [(b"content-type", b"application/msgpack")], _encode(reply))

    def client_left(self) -> None:
        self._is_gone = True
        if self.call is not None:
            self.call.withdraw()

    def client_paused(self) -> None:
        """An answer is one write."""

    def client_resumed(self) -> None:
        """An answer is one write."""
