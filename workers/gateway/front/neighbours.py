"""The gateways of other nodes, and that a request is theirs."""

from collections.abc import Callable, Iterable

from workers.contracts.snapshot import Version
from workers.gateway import errors
from workers.gateway.batches.places import node_tag, tag_of
from workers.gateway.front.neighbour_watch import Silences
from workers.gateway.front.proofs import is_of_a_gateway, prove
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.heads import Headers
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.turns import Turn
from workers.gateway.payload.labels import FORWARDED, PROOF


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
    """The gateways of other nodes. `urls` are theirs now, by node id; by `secret` they know each other."""

    def __init__(
        self,
        node_id: str,
        turn: Turn,
        urls: Callable[[], dict[str, str]],
        secret: Callable[[], str],
        unix_time: Callable[[], float],
    ) -> None:
        self._tag = tag_of(node_id)
        self._turn = turn
        self._urls = urls
        self._secret = secret
        self._unix_time = unix_time
        self._pools: dict[str, EnginePool] = {}
        self._turns = 0
        self.silences = Silences()

    def own_words(self, request: HttpRequest, target: bytes = b"") -> Headers:
        """What shows one of them that a gateway asks: for the same, or for what is at `target`."""
        proof = prove(self._secret(), target or request.head.target, request.body, self._unix_time())
        return [(PROOF, proof)]

    def is_one_asking(self, request: HttpRequest) -> bool:
        """Whoever only says so is a client like any other. Raises GatewayError where a proof is of nobody known here.

        Two gateways that do not know each other would ask each other for ever.
        """
        proof = request.header(PROOF)
        if not proof or not request.header(FORWARDED):
            return False
        if not is_of_a_gateway(self._secret(), request.head.target, request.body, proof):
            raise errors.misdirected()
        return True

    def keeper_of(self, name: str) -> EnginePool | None:
        """None of what is, or would be, here."""
        tag = node_tag(name)
        if tag in ("", self._tag):
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
