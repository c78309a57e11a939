"""One request for an engine, from its arrival to its usage record and the last byte of its answer.

waiting ──dispatched──▶ asking ──head──▶ answering ──end──▶ settled
   │  ◀──failed, nothing sent──┘  │          │
   │  ◀──broke off, to be continued elsewhere┤
   └──────────────refused, client left, engine died──────▶ settled
"""

import asyncio
import logging

from workers.contracts.settlement import NOTHING, Settlement
from workers.contracts.usage import Outcome
from workers.gateway import errors
from workers.gateway.apis.interface import AnswerStream
from workers.gateway.attempts.asking import Question
from workers.gateway.attempts.attempt import Attempt
from workers.gateway.attempts.engines import Engine
from workers.gateway.attempts.reading import open_stream
from workers.gateway.driving.batching import Batch, Share
from workers.gateway.driving.place import Place
from workers.gateway.driving.terms import Terms
from workers.gateway.errors import GatewayError
from workers.gateway.exchanges.answering import ClientAnswer
from workers.gateway.exchanges.attempting import AnyContinuation, Attempting
from workers.gateway.exchanges.ending import How
from workers.gateway.exchanges.facilities import Facilities
from workers.gateway.http.heads import AnswerHead, Headers
from workers.gateway.http.server import ClientConnection
from workers.gateway.http.upstream import UpstreamError
from workers.gateway.records.tally import Tally
from workers.scheduling.interface import Cancel, Reject

logger = logging.getLogger(__name__)

# A batch of the longest embeddings has some hundred megabytes of text; an engine that never ends has no bound.
MAX_WHOLE_ANSWER_BYTES = 512 * 1024 * 1024


class Exchange(Attempting):
    """Owns the answer to one client request; every path through it leads to one of its endings, once."""

    __slots__ = ("_client",)

    def __init__(
        self,
        facilities: Facilities,
        client: ClientConnection,
        question: Question,
        settlement: Settlement,
        own_headers: Headers,
    ) -> None:
        self._client = client
        super().__init__(
            facilities,
            question,
            ClientAnswer(client, question.request, api=question.path.api, own_headers=own_headers),
            Tally(facilities.meter, facilities.journal, question, settlement),
            Place(facilities.driver),
        )

    def note_arrival(self) -> None:
        """For one that may have to wait before it begins."""
        self._tally.note()

    def begin(self, terms: Terms) -> None:
        self._client.owner = self
        self._facilities.exchanges.add(self)
        scheduled_id = self._facilities.driver.submit(self, terms, self._tally.settlement.request_id)
        if not self._tally.is_settled:
            self._place.take(scheduled_id)
            self._tally.note_wait()

    def begin_again(self, question: Question, terms: Terms) -> None:
        """As a request for another version, that came when this one did. Nothing of it runs, or has gone out."""
        self._place.give_back("withdrawn", NOTHING)
        self._question = question
        self._tally.ask_instead(question)
        self.begin(terms)

    def step_aside(self) -> ClientConnection:
        """Another node answers the client, and has the record."""
        self._over()
        self._place.give_back("withdrawn", NOTHING)
        self._tally.forget()
        self._client.owner = None
        return self._client

    @property
    def question(self) -> Question:
        return self._question

    @property
    def settlement(self) -> Settlement:
        return self._tally.settlement

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

    # -- from the scheduler's driver

    def dispatched(self, engine: Engine, batch: Batch | None = None) -> None:
        """A fault here would keep the place for ever, and those from being sent that are sent with this one."""
        self.last_progress_at = self._monotonic()
        try:
            self._ask(engine, batch)
        except Exception:
            logger.exception("request failed", extra={"request_id": self._question.request_id})
            asyncio.get_running_loop().call_soon(self._end_by_own_fault)  # once the place is held

    def _end_by_own_fault(self) -> None:
        if not self._tally.is_settled:
            self.give_up(errors.internal())

    def _ask(self, engine: Engine, batch: Batch | None) -> None:
        if self._question.alternatives and engine.endpoint.version_id != self._tally.settlement.version_id:
            self._answer.add_header(*self._question.degrade(engine.endpoint.version_id, self._tally.settlement))
        self._tally.dispatched(engine, self.last_progress_at)
        if batch is not None and self._continuation is None:
            self._attempt = batch.join(self._question, self)
            return
        if self._continuation is not None:
            self._attempt = self._continuation.begin_attempt(self._question, engine, self)
            return
        attempt = Attempt(engine, self._question.for_engine(engine, self._question.request.body), self)
        self._attempt = attempt
        attempt.begin()

    def refused(self, reject: Reject) -> None:
        self._place.lose()
        if self._refusals and self._answer.head is None:
            self._over().with_whole(*self._refusals[-1])
            return
        is_failed = reject.code == "attempts_exhausted" or self._answer.head is not None
        error = errors.engine_died() if self._answer.head is not None else errors.of_reject(reject)
        self._break_off(error, "failed" if is_failed else "refused", "withdrawn")

    def cancelled(self, cancel: Cancel) -> None:
        self.give_up(errors.workflow_ended(cancel.reason))

    def engine_stalled(self) -> None:
        """What is there must run elsewhere, as if the engine had broken off."""
        if self._last_words is not None:
            return
        self._abandon_attempt()
        self.answer_failed(UpstreamError("the engine makes no progress"))

    def stranded(self) -> None:
        if self.may_go_elsewhere and self._facilities.reroute is not None:
            self._facilities.reroute(self)

    @property
    def may_go_elsewhere(self) -> bool:
        """What an engine has begun only one of the same version goes on with, and that may come back."""
        has_begun = self._answer.head is not None or self._continuation is not None or self._refusals
        return self._attempt is None and not has_begun and not self._tally.is_settled

    # -- from the client's connection

    def client_left(self) -> None:
        if self._tally.is_settled or self._last_words is not None:
            return
        head, stream = self._answer.head or self._head, self._stream
        if stream is not None and stream.has_ended:
            self._abandon_attempt()
            used = self._used_so_far()
            self._over().without_client(used, head, stream)
        else:
            self._hang_up(lambda: self._leave_unheard(head), _nobody)

    def _leave_unheard(self, head: AnswerHead | None) -> None:
        used = self._used_so_far()
        self._over().without_client(used, head, None)

    def client_paused(self) -> None:
        if self._attempt is not None:
            self._attempt.pause()

    def client_resumed(self) -> None:
        self.last_progress_at = self._monotonic()
        if self._attempt is not None:
            self._attempt.resume()

    # -- from the gateway

    def give_up(self, error: GatewayError) -> None:
        """The engine makes no progress, or the gateway stops: the client gets an error instead of silence."""
        if self._last_words is not None:
            self._abandon_attempt()
            self._last_words.end()
            return
        has_run = self._attempt is not None
        is_failed = has_run or self._answer.head is not None
        outcome: Outcome = "failed" if is_failed else "refused"
        self._hang_up(
            lambda: self._break_off(error, outcome, "failed" if has_run else "withdrawn"), self._pass_last_words
        )

    def _pass_last_words(self, passed: bytes) -> None:
        if self._answer.head is not None:
            self._answer.send_part(self._answer.head, passed)

    def _give_up_now(self) -> None:
        """What the engine sends is not to be read."""
        self._abandon_attempt()
        self._break_off(errors.engine_died(), "failed", "failed")

    # -- from the engine's connection

    def answer_began(self, head: AnswerHead) -> None:
        self.last_progress_at = self._monotonic()
        self._head = head
        if self._continuation is not None:
            self._continue_with(head, self._continuation)
            return
        self._answer.timing = self._tally.server_timing(self.last_progress_at)
        if head.is_event_stream and self._attempt is not None:
            self._stream = open_stream(self._question, self._attempt.engine)

    def answer_received(self, pieces: list[bytes]) -> None:
        self.last_progress_at = self._monotonic()
        stream = self._stream
        if stream is None:
            self._hold(pieces)
            return
        passed = stream.feed(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._awaits_first_token:
            self._note_first_token(stream)
        self._tally.passed(stream)
        if stream.events_with_output >= self._place.progress_due:
            self._place.progress(stream.events_with_output)
        if passed and self._head is not None:
            self._answer.send_part(self._head, passed)
        elif stream.is_too_long:
            self._give_up_now()
            return
        if stream.has_error:
            self._engine_reported_failure(stream)

    def _hold(self, pieces: list[bytes]) -> None:
        """Of an answer that goes out whole, since what it used is read at its end."""
        self._pieces += pieces
        self._held_bytes += sum(map(len, pieces))
        if self._held_bytes > MAX_WHOLE_ANSWER_BYTES:
            self._pieces = []
            self._give_up_now()

    def answer_ended(self, pieces: list[bytes]) -> None:
        if self._attempt is not None:
            self._attempt.ended()
        assert self._head is not None, "an answer that has ended has begun"  # noqa: S101 - an invariant
        if self._pieces:
            pieces = self._pieces + pieces
        last_part = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if self._stream is not None:
            self._end_stream(self._stream, self._head, last_part)
        elif self._head.turns_away and self._may_ask_another():
            self._refusals.append((self._head, last_part))
            self._attempt = None  # it did nothing for us
            self._try_again(self._head.retry_after_s)
        else:
            if self._head.status == 400 and self._attempt is not None:  # noqa: PLR2004 - HTTP
                last_part = self._question.refusal(self._attempt.engine, last_part)
            is_shared = isinstance(self._attempt, Share) and self._attempt.is_usage_shared
            self._over().with_whole(self._head, last_part, is_usage_shared=is_shared)

    def answer_failed(self, error: UpstreamError) -> None:
        del error
        if self._head is None and self._attempt is not None and not self._attempt.failed():
            return
        if self._answer.head is None:
            self._try_again()
        elif self._stream is not None and self._stream.has_ended:
            self._over().with_stream(self._stream, self._answer.head, self._stream.finish_whole_events())
        elif self._stream is not None and (continuation := self._continuation_of(self._stream)) is not None:
            self._go_on(self._stream, continuation)
        else:
            self._break_off(errors.engine_died(), "failed", "failed")

    # -- again, or on from where it broke off: more in attempting.py

    def _continue_with(self, head: AnswerHead, continuation: AnyContinuation) -> None:
        if head.is_event_stream and self._attempt is not None:
            self._stream = continuation.open_stream(self._question, self._attempt.engine)
        elif (head.status >= 500 or head.turns_away) and self._stream is not None:  # noqa: PLR2004 - HTTP
            self._abandon_attempt()
            self._go_on(self._stream, continuation, head.retry_after_s)
        else:
            self._give_up_now()

    # -- answering

    def _note_first_token(self, stream: AnswerStream) -> None:
        if self._awaits_first_token and stream.has_first_token:
            self._awaits_first_token = False
            self._tally.first_token_came(self._monotonic())
            self._place.first_token()

    def _end_stream(self, stream: AnswerStream, head: AnswerHead, last_part: bytes) -> None:
        last = stream.feed(last_part)
        self._note_first_token(stream)
        if stream.has_error and stream.text is not None and self._place.is_held:
            if last:
                self._answer.send_part(head, last)
                last = b""
            if self._answer.head is None and self._may_run_elsewhere():
                self._try_again()
                return
            if (continuation := self._continuation_of(stream)) is not None:
                self._go_on(stream, continuation)
                return
        if self._attempt is not None and stream.fingerprint is not None:
            self._attempt.engine.fingerprint = stream.fingerprint
        self._over().with_stream(stream, head, last + stream.finish())

    def _break_off(self, error: GatewayError, outcome: Outcome, how: How) -> None:
        used = self._used_so_far()
        self._over().with_error(error, outcome, used, self._stream, how)


def _nobody(passed: bytes) -> None:
    """Who was to get it has left."""
    del passed
