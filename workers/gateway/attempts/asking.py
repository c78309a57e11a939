"""The request that goes to the engine: the client's own bytes, but for the model's name and the usage we ask for."""

from workers.contracts.settlement import Settlement
from workers.gateway.apis.paths import EnginePath
from workers.gateway.attempts.degrading import DEGRADED_TO, Alternative
from workers.gateway.attempts.engines import Engine
from workers.gateway.events.dialects import dialect_of
from workers.gateway.http.requests import HttpRequest
from workers.gateway.payload.bodies import Peek, with_fields
from workers.gateway.payload.forms import with_form_model
from workers.gateway.payload.lengthened import without_ours
from workers.gateway.payload.peeks import is_refused_as_number, wants_stream

Header = tuple[bytes, bytes]


class Question:
    """What a client asks. `public_model` and `served_name` differ when the engine knows the model by another name.

    `alternatives` are the versions that may answer instead; `served_name` is then theirs. `needs_usage`: it comes only
    if it is asked for.

    `expected_input_tokens` are what its prompt is taken for where no engine says; of sound nothing is known.

    `output_limit` is the client's own, in tokens. `rank` of its class is its `priority` in an engine that has any: less
    is served first there, too.
    """

    __slots__ = (
        "alternatives",
        "expected_input_tokens",
        "needs_usage",
        "output_limit",
        "path",
        "peek",
        "public_model",
        "rank",
        "request",
        "request_id",
        "served_name",
        "trace_parent",
    )

    def __init__(
        self,
        request: HttpRequest,
        path: EnginePath,
        request_id: str,
        trace_parent: bytes,
        peek: Peek,
        *,
        public_model: str,
        served_name: str,
        expected_input_tokens: int = 0,
        output_limit: int | None = None,
        rank: int = 0,
        alternatives: tuple[Alternative, ...] = (),
    ) -> None:
        self.request = request
        self.path = path
        self.request_id = request_id
        self.trace_parent = trace_parent
        self.peek = peek
        self.public_model = public_model
        self.served_name = served_name
        self.rank = rank
        self.alternatives = alternatives
        self.output_limit = output_limit
        self.expected_input_tokens = expected_input_tokens
        self.needs_usage = path.asks_for_usage and wants_stream(peek)

    @property
    def is_renamed(self) -> bool:
        return self.public_model != self.served_name

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
        return self._message(engine, self.request.head.line_upstream, self._body_for(engine, body))

    def for_engine_at(self, engine: Engine, target: bytes, body: bytes) -> bytes:
        """The same for what the gateway asks on the client's behalf; `body` goes as it is."""
        return self._message(engine, b"POST " + target + b" HTTP/1.1\r\n", body)

    def _message(self, engine: Engine, first_line: bytes, body: bytes) -> bytes:
        return b"".join(
            [
                first_line,
                engine.pool.host_line,
                self.request.head.lines_upstream,
                b"x-request-id: ",
                self.request_id.encode(),
                b"\r\ntraceparent: ",
                self.trace_parent,
                b"\r\ncontent-length: ",
                str(len(body)).encode(),
                b"\r\n\r\n",
                body,
            ]
        )

    def refusal(self, engine: Engine, answer: bytes) -> bytes:
        """An engine's 400, as it would be without what we added to the body."""
        asked = self.request.body
        return answer if self.path.is_form else without_ours(answer, asked, self._body_for(engine, asked))

    def _body_for(self, engine: Engine, body: bytes) -> bytes:
        if self.is_renamed:
            body = self._renamed(body)
        if self.path.takes_priority and engine.endpoint.shape.has_priorities:
            body = self._with_rank(body)
        return dialect_of(engine.endpoint).prepare(body, self.peek) if self.needs_usage else body

    def _with_rank(self, body: bytes) -> bytes:
        """In place of the client's number; what is none is the engine's to refuse."""
        return body if is_refused_as_number(self.peek.priority) else with_fields(body, {"priority": self.rank})

    def _renamed(self, body: bytes) -> bytes:
        if self.path.is_form:
            return with_form_model(body, self.request.header(b"content-type"), self.served_name)
        return with_fields(body, {"model": self.served_name})
