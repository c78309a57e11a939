"""One request for an engine, from its arrival to its usage record and the last byte of its answer.

waiting ──dispatched──▶ asking ──head──▶ answering ──end──▶ settled
   │  ◀──failed, nothing sent──┘  │          │
   │  ◀──broke off, to be continued elsewhere┤
   └──────────────refused, client left, engine died──────▶ settled
"""

from collections.abc import Callable
from typing import Protocol

from workers.contracts.settlement import NOTHING, Settlement, Used
from workers.contracts.usage import Outcome
from workers.gateway import errors
from workers.gateway.answering import ClientAnswer
from workers.gateway.apis.interface import AnswerStream
from workers.gateway.asking import Question
from workers.gateway.attempt import Attempt
from workers.gateway.bodies import with_model
from workers.gateway.continuing import Continuation, continue_from
from workers.gateway.driver import Driver
from workers.gateway.engines import Engine
from workers.gateway.errors import GatewayError
from workers.gateway.heads import AnswerHead, Headers
from workers.gateway.journal import Journal
from workers.gateway.metering import Meter, outcome_of
from workers.gateway.reading import open_stream
from workers.gateway.server import ClientConnection
from workers.gateway.tally import Tally
from workers.gateway.terms import Terms
from workers.gateway.upstream import UpstreamError
from workers.scheduling.interface import Cancel, Reject

_CLIENT_LEFT = 499  # nginx's status for a client that closed before any answer
PROGRESS_EACH = 64


class ExchangeOwner(Protocol):
    """What an exchange needs of the gateway."""

    driver: Driver
    meter: Meter
    journal: Journal
    monotonic: Callable[[], float]
    exchanges: set["Exchange"]


class Exchange:
    """Owns the answer to one client request; every path through it ends in `_settle`, once."""

    __slots__ = (
        "_answer",
        "_attempt",
        "_client",
        "_continuation",
        "_head",
        "_owner",
        "_pieces",
        "_progress_due",
        "_question",
        "_scheduled_id",
        "_stream",
        "_tally",
        "last_progress_at",
    )

    def __init__(
        self,
        owner: ExchangeOwner,
        client: ClientConnection,
        *,
        question: Question,
        settlement: Settlement,
        own_headers: Headers,
    ) -> None:
        self._owner = owner
        self._client = client
        self._answer = ClientAnswer(client, question.request, api=question.path.api, own_headers=own_headers)
        self._question = question
        self._tally = Tally(owner.meter, owner.journal, question, settlement)
        self._scheduled_id: int | None = None
        self._attempt: Attempt | None = None
        self._head: AnswerHead | None = None
        self._stream: AnswerStream | None = None
        self._continuation: Continuation | None = None
        self._pieces: list[bytes] = []
        self._progress_due = PROGRESS_EACH
        self.last_progress_at = owner.monotonic()

    def begin(self, terms: Terms) -> None:
        self._client.owner = self
        self._owner.exchanges.add(self)
        scheduled_id = self._owner.driver.submit(self, terms, self._tally.settlement.request_id)
        if not self._tally.is_settled:
            self._scheduled_id = scheduled_id
            self._tally.note()

    @property
    def public_model(self) -> str:
        return self._question.public_model

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the scheduler, and not for an engine or the client."""
        return self._attempt is None

    @property
    def is_client_stalled(self) -> bool:
        return self._client.write_paused_at is not None

    @property
    def _status(self) -> int:
        """What the client has been told or is about to be; 0 before an engine's answer began."""
        head = self._answer.head or self._head
        return head.status if head is not None else 0

    # -- from the scheduler's driver

    def dispatched(self, engine: Engine) -> None:
        self.last_progress_at = self._owner.monotonic()
        self._tally.dispatched(engine, self.last_progress_at)
        body = self._continuation.body if self._continuation is not None else self._question.request.body
        self._attempt = Attempt(engine, self._question.for_engine(engine, body), self)
        self._attempt.begin()

    def refused(self, reject: Reject) -> None:
        self._scheduled_id = None
        if self._answer.head is not None:  # of the continuation
            self._break_off(errors.engine_died(), "failed")
            return
        is_failed = reject.code == "attempts_exhausted"
        error = errors.of_reject(reject)
        self._answer_error(error, NOTHING, "failed" if is_failed else "refused")

    def cancelled(self, cancel: Cancel) -> None:
        self.give_up(errors.workflow_ended(cancel.reason))

    def engine_stalled(self) -> None:
        """What is there must run elsewhere, as if the engine had broken off."""
        self._abandon_attempt()
        self.answer_failed(UpstreamError("the engine makes no progress"))

    # -- from the client's connection

    def client_left(self) -> None:
        if not self._tally.is_settled:
            self._abandon_attempt()
            self._settle(self._used_so_far(), "client_left", self._status or _CLIENT_LEFT)
            self._leave_schedule(is_failed=False, is_whole=False)

    def client_paused(self) -> None:
        if self._attempt is not None:
            self._attempt.pause()

    def client_resumed(self) -> None:
        self.last_progress_at = self._owner.monotonic()
        if self._attempt is not None:
            self._attempt.resume()

    # -- from the gateway

    def give_up(self, error: GatewayError) -> None:
        """The engine makes no progress, or the gateway stops: the client gets an error instead of silence."""
        self._abandon_attempt()
        is_failed = self._attempt is not None
        self._break_off(error, "failed" if is_failed or self._answer.head is not None else "refused")
        self._leave_schedule(is_failed=is_failed)

    # -- from the engine's connection

    def answer_began(self, head: AnswerHead) -> None:
        self.last_progress_at = self._owner.monotonic()
        self._head = head
        if self._continuation is not None:
            self._continue_with(head, self._continuation)
            return
        self._answer.timing = self._tally.server_timing(self.last_progress_at)
        if head.is_event_stream and self._attempt is not None:
            self._stream = open_stream(self._question, self._attempt.engine)

    def answer_received(self, pieces: list[bytes]) -> None:
        self.last_progress_at = self._owner.monotonic()
        stream = self._stream
        if stream is None:
            self._pieces += pieces
            return
        passed = stream.feed(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._tally.settlement.first_token_at is None:
            self._note_first_token(stream)
        self._tally.passed(stream)
        if stream.events_with_output >= self._progress_due:
            self._note_progress(stream.events_with_output)
        if passed and self._head is not None:
            self._answer.send_part(self._head, passed)
        elif stream.is_too_long:
            self.give_up(errors.engine_died())
            return
        if stream.has_error:
            self._engine_reported_failure(stream)

    def answer_ended(self, pieces: list[bytes]) -> None:
        if self._attempt is not None:
            self._attempt.ended()
        assert self._head is not None, "an answer that has ended has begun"  # noqa: S101 - an invariant
        if self._pieces:
            pieces = self._pieces + pieces
        last_part = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if self._stream is not None:
            self._end_stream(self._stream, self._head, last_part)
        else:
            self._end_whole(self._head, last_part)

    def answer_failed(self, error: UpstreamError) -> None:
        del error
        if self._head is None and self._attempt is not None and not self._attempt.failed():
            return
        if self._answer.head is None:
            self._try_again()
        elif self._stream is not None and (continuation := self._continuation_of(self._stream)) is not None:
            self._go_on(self._stream, continuation)
        else:
            self._break_off(errors.engine_died(), "failed")
            self._leave_schedule(is_failed=True)

    # -- again, or on from where it broke off

    def _try_again(self) -> None:
        """Nothing has gone out: another engine may answer in place of this one."""
        self._tally.attempt_failed(self._used_so_far(), self._owner.monotonic())
        self._forget_attempt()
        self._stream = None
        if self._scheduled_id is not None:
            self._owner.driver.failed(self._scheduled_id, may_retry=True)

    def _forget_attempt(self) -> None:
        self._attempt = None
        self._head = None
        self._pieces = []

    def _abandon_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.abandon()

    def _continuation_of(self, stream: AnswerStream) -> Continuation | None:
        if self._scheduled_id is None or self._answer.head is None or stream.text is None:
            return None
        return continue_from(self._question, stream)

    def _engine_reported_failure(self, stream: AnswerStream) -> None:
        """In the stream itself, as vLLM does when the core of it has died; the end of the stream may come or not."""
        continuation = self._continuation_of(stream)
        if continuation is not None:
            self._abandon_attempt()
            self._go_on(stream, continuation)
        elif (held := stream.release_error()) and self._head is not None:
            self._answer.send_part(self._head, held)

    def _go_on(self, stream: AnswerStream, continuation: Continuation) -> None:
        if continuation.is_complete and self._answer.head is not None:
            self._settle(self._tally.of_stream(stream), "completed", self._status)
            self._answer.end(self._answer.head, stream.finish_whole_events() + continuation.ending())
            self._leave_schedule(is_failed=True)
            return
        self._continuation = continuation
        self._tally.attempt_broke_off(self._owner.monotonic())
        self._forget_attempt()
        if self._scheduled_id is not None:
            self._owner.driver.failed(
                self._scheduled_id, may_retry=True, generated_tokens=continuation.generated_tokens
            )

    def _continue_with(self, head: AnswerHead, continuation: Continuation) -> None:
        if head.is_event_stream and self._attempt is not None:
            self._stream = continuation.open_stream(self._question, self._attempt.engine)
        else:
            self.give_up(errors.engine_died())

    # -- answering

    def _note_first_token(self, stream: AnswerStream) -> None:
        if self._tally.settlement.first_token_at is None and stream.has_first_token:
            self._tally.first_token_came(self._owner.monotonic())
            if self._scheduled_id is not None:
                self._owner.driver.first_token(self._scheduled_id)

    def _note_progress(self, output_tokens: int) -> None:
        """Each time that the answer is half as long again, so that the longest costs no more than a few calls."""
        self._progress_due = output_tokens + max(PROGRESS_EACH, output_tokens // 2)
        if self._scheduled_id is not None:
            self._owner.driver.progress(self._scheduled_id, output_tokens)

    def _end_stream(self, stream: AnswerStream, head: AnswerHead, last_part: bytes) -> None:
        last = stream.feed(last_part)
        self._note_first_token(stream)
        if stream.has_error and (continuation := self._continuation_of(stream)) is not None:
            if last:
                self._answer.send_part(head, last)
            self._go_on(stream, continuation)
            return
        if self._attempt is not None:
            self._attempt.engine.fingerprint = stream.fingerprint
        last += stream.finish()
        self._settle(self._tally.of_stream(stream), "failed" if stream.has_error else "completed", head.status)
        self._answer.end(head, last)
        self._leave_schedule(is_failed=stream.has_error)

    def _end_whole(self, head: AnswerHead, body: bytes) -> None:
        is_answer = head.status < 400  # noqa: PLR2004 - HTTP
        used = self._tally.of_whole(body, self._owner.monotonic()) if is_answer else NOTHING
        first_token_at = self._tally.settlement.first_token_at
        if first_token_at is not None and self._scheduled_id is not None:
            self._owner.driver.first_token(self._scheduled_id, first_token_at)
        if is_answer and self._question.is_renamed:
            body = with_model(body, self._question.public_model)
        self._settle(used, outcome_of(head.status), head.status)
        self._answer.send_whole(head, body)
        self._leave_schedule(is_failed=head.status >= 500)  # noqa: PLR2004 - HTTP

    def _break_off(self, error: GatewayError, outcome: Outcome) -> None:
        """Ends the answer with an error: a whole one if nothing has gone out, an event in the stream otherwise."""
        used = self._used_so_far()
        if self._answer.head is None:
            self._answer_error(error, used, outcome)
            return
        self._settle(used, outcome, self._status, error.code)
        held = self._stream.finish_whole_events() if self._stream is not None else b""
        last_event = self._question.path.api.error_event(error, self._stream)
        self._answer.end(self._answer.head, held + last_event)

    def _answer_error(self, error: GatewayError, used: Used, outcome: Outcome) -> None:
        self._settle(used, outcome, error.status, error.code)
        self._answer.send_error(error)

    # -- settling

    def _settle(self, used: Used, outcome: Outcome, status: int, error_code: str = "") -> None:
        self._owner.exchanges.discard(self)
        self._tally.settle(used, outcome, status, error_code, self._owner.monotonic())

    def _leave_schedule(self, *, is_failed: bool, is_whole: bool = True) -> None:
        """Gives the slot back, after the client's last byte: what is dispatched next must not delay it."""
        request_id, self._scheduled_id = self._scheduled_id, None
        if request_id is None:
            return
        used = self._tally.used
        if is_failed:
            self._owner.driver.failed(request_id, may_retry=False, used=used)
        elif self._attempt is not None and self._status and is_whole:
            self._owner.driver.finished(request_id, used)
        else:
            self._owner.driver.withdrawn(request_id, used)

    def _used_so_far(self) -> Used:
        """What engines have done for an answer that ends here."""
        if self._stream is not None:
            return self._tally.of_stream(self._stream)
        if self._attempt is None or not self._attempt.was_asked:
            return NOTHING
        return self._tally.of_silence(self._owner.monotonic())
