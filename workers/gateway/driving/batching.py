"""A batch of the scheduler on its way into an engine that does not batch by itself: what fits together is one call."""

from typing import Protocol

from workers.gateway.attempts.asking import Question
from workers.gateway.attempts.attempt import Attempt
from workers.gateway.attempts.combining import Inputs, combine, read_inputs, split
from workers.gateway.attempts.engines import Engine
from workers.gateway.http.call import Asker
from workers.gateway.http.heads import AnswerHead, without_header
from workers.gateway.http.upstream import AnswerReader, UpstreamError
from workers.gateway.payload.labels import REQUEST_ID

_COMBINED = "embeddings"


class Caller(Protocol):
    """Whoever makes the call that shares are of."""

    def left(self) -> None: ...


class Share:
    """One request's part in a batch: an attempt as any other for whoever asked, alone or in a call with others.

    `is_usage_shared`: the engine counted the call, and what of it was this request's is reckoned.
    """

    __slots__ = ("_alone", "_call", "asker", "engine", "inputs", "is_gone", "is_usage_shared", "question", "was_asked")

    def __init__(self, engine: Engine, question: Question, asker: Asker) -> None:
        self.engine = engine
        self.question = question
        self.asker = asker
        self.inputs: Inputs | None = None
        self.is_gone = False
        self.is_usage_shared = False
        self.was_asked = False
        self._alone: Attempt | None = None
        self._call: Caller | None = None

    def read(self) -> None:
        """What it could share with others."""
        if self.question.path.operation == _COMBINED:
            self.inputs = read_inputs(self.question.request.body)

    def begin_alone(self) -> None:
        self._call = None
        self.is_usage_shared = False
        self.was_asked = True
        message = self.question.for_engine(self.engine, self.question.request.body)
        self._alone = Attempt(self.engine, message, self.asker)
        self._alone.begin()

    def begin_in(self, call: Caller) -> None:
        self._call = call
        self.was_asked = True
        self.is_usage_shared = self.inputs is not None and self.inputs.kind == "text"

    def failed(self) -> bool:
        """As of an attempt; a call has looked after itself."""
        return self._alone is None or self._alone.failed()

    def ended(self) -> None:
        if self._alone is not None:
            self._alone.ended()

    def abandon(self) -> None:
        self.is_gone = True
        if self._call is not None:
            self._call.left()
        if self._alone is not None:
            self._alone.abandon()

    def hang_up(self, reader: AnswerReader) -> bool:
        return self._alone is not None and self._alone.hang_up(reader)

    def pause(self) -> None:
        if self._alone is not None:
            self._alone.pause()

    def resume(self) -> None:
        if self._alone is not None:
            self._alone.resume()


class Batch:
    """Gathers what the scheduler sent to one engine together, and begins it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._shares: list[Share] = []

    def join(self, question: Question, asker: Asker) -> Share:
        share = Share(self._engine, question, asker)
        self._shares.append(share)
        return share

    def begin(self) -> None:
        waiting = [share for share in self._shares if not share.is_gone]
        for shares in _alike(waiting) if len(waiting) > 1 else [waiting]:
            if len(shares) > 1:
                Call(self._engine, shares).begin()
            else:
                for share in shares:
                    share.begin_alone()


def _alike(shares: list[Share]) -> list[list[Share]]:
    """Those that may share a call, together."""
    alike: dict[object, list[Share]] = {}
    for position, share in enumerate(shares):
        share.read()
        head, inputs = share.question.request.head, share.inputs
        key = (head.path, head.query, share.question.served_name, inputs.key) if inputs is not None else position
        alike.setdefault(key, []).append(share)
    return list(alike.values())


class Call:
    """One call of the engine for several requests. Where that is refused, each goes alone and hears its own."""

    def __init__(self, engine: Engine, shares: list[Share]) -> None:
        self._shares = shares
        self._inputs = [share.inputs for share in shares if share.inputs is not None]
        self._head: AnswerHead | None = None
        self._pieces: list[bytes] = []
        first = min(shares, key=lambda share: share.question.rank)
        self._attempt = Attempt(engine, first.question.for_engine(engine, combine(self._inputs)), self)

    @property
    def is_client_stalled(self) -> bool:
        return False

    def begin(self) -> None:
        for share in self._shares:
            share.begin_in(self)
        self._attempt.begin()

    def left(self) -> None:
        """The client of one has left; the others' answer comes all the same."""
        if all(share.is_gone for share in self._shares):
            self._attempt.abandon()

    # -- from the engine's connection

    def answer_began(self, head: AnswerHead) -> None:
        """Its id is that of one of the requests."""
        self._head = without_header(head, REQUEST_ID)

    def answer_received(self, pieces: list[bytes]) -> None:
        self._pieces += pieces

    def answer_ended(self, pieces: list[bytes]) -> None:
        self._attempt.ended()
        head, body = self._head, b"".join(self._pieces + pieces)
        assert head is not None, "an answer that has ended has begun"  # noqa: S101 - an invariant
        if head.status >= 500 or head.turns_away:  # noqa: PLR2004 - HTTP
            answers: list[bytes] | None = [body] * len(self._shares)
        else:
            answers = split(body, self._inputs) if head.status < 400 else None  # noqa: PLR2004 - HTTP
        for position, share in enumerate(self._shares):
            if share.is_gone:
                continue
            if answers is None:
                share.begin_alone()
            else:
                share.asker.answer_began(head)
                share.asker.answer_ended([answers[position]])

    def answer_failed(self, error: UpstreamError) -> None:
        if self._head is None and not self._attempt.failed():
            return
        for share in self._shares:
            if not share.is_gone:
                share.asker.answer_failed(error)
