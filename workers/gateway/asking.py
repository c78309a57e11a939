"""The request that goes to the engine: the client's own bytes, but for the model's name and the usage we ask for."""

from msgspec import Struct

from workers.contracts.settlement import Settlement
from workers.gateway.bodies import Peek, with_fields
from workers.gateway.degrading import DEGRADED_TO, Alternative
from workers.gateway.dialects import dialect_of
from workers.gateway.engines import Engine
from workers.gateway.forms import with_form_model
from workers.gateway.paths import EnginePath
from workers.gateway.requests import HttpRequest

Header = tuple[bytes, bytes]


class Question(Struct, eq=False):
    """What a client asks. `public_model` and `served_name` differ when the engine knows the model by another name.

    `alternatives` are the versions that may answer instead; `served_name` is then theirs.

    `rank` of its class is its `priority` in an engine that has any: less is served first there, too.
    """

    request: HttpRequest
    path: EnginePath
    request_id: str
    trace_parent: bytes
    peek: Peek
    public_model: str
    served_name: str
    rank: int = 0
    alternatives: tuple[Alternative, ...] = ()

    @property
    def is_renamed(self) -> bool:
        return self.public_model != self.served_name

    @property
    def needs_usage(self) -> bool:
        """Whether usage comes only if it is asked for."""
        return self.path.asks_for_usage and self.peek.is_stream

    @property
    def prompt_bytes(self) -> int:
        """What an estimate of its tokens may go by; of sound and other files nothing is known."""
        return 0 if self.path.is_form else len(self.request.body)

    def degrade(self, version_id: str, settlement: Settlement) -> Header:
        """That alternative answers, and is paid for. Returns what says so to the client."""
        chosen = next(other for other in self.alternatives if other.version.version_id == version_id)
        self.served_name = chosen.version.served_name
        settlement.version_id = version_id
        settlement.deployment_id = chosen.version.deployment_id
        settlement.price = chosen.price
        return DEGRADED_TO, chosen.name.encode()

    def for_engine(self, engine: Engine, body: bytes) -> bytes:
        """The whole HTTP request. `body` is the client's, or goes on from it."""
        head = self.request.head
        body = self._body_for(engine, body)
        return (
            b"%b %b HTTP/1.1\r\nhost: %b\r\n%bx-request-id: %b\r\ntraceparent: %b\r\ncontent-length: %d\r\n\r\n%b"
            % (
                head.method,
                head.path + b"?" + head.query if head.query else head.path,
                engine.pool.authority,
                head.lines_upstream,
                self.request_id.encode(),
                self.trace_parent,
                len(body),
                body,
            )
        )

    def _body_for(self, engine: Engine, body: bytes) -> bytes:
        if self.is_renamed and self.path.is_form:
            body = with_form_model(body, self.request.header(b"content-type"), self.served_name)
        elif self.is_renamed:
            body = with_fields(body, {"model": self.served_name})
        if self.path.takes_priority and engine.endpoint.shape.has_priorities:
            body = with_fields(body, {"priority": self.rank})
        return dialect_of(engine.endpoint).prepare(body, self.peek) if self.needs_usage else body
