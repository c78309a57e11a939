"""The attempts of one request: what runs, what may run again, and what goes on from where it broke off."""

from collections.abc import Callable

from workers.contracts.settlement import Used
from workers.gateway.apis.interface import AnswerStream
from workers.gateway.attempts.asking import Question
from workers.gateway.attempts.attempt import Attempt
from workers.gateway.attempts.counting import CountedAttempt
from workers.gateway.attempts.reading import open_stream
from workers.gateway.driving.batching import Share
from workers.gateway.driving.place import Place
from workers.gateway.exchanges.answering import ClientAnswer
from workers.gateway.exchanges.continuing import Continuation, continue_from
from workers.gateway.exchanges.continuing_named import NamedContinuation, continue_named
from workers.gateway.exchanges.ending import Ending
from workers.gateway.exchanges.facilities import Facilities
from workers.gateway.exchanges.last_words import LastWords
from workers.gateway.http.heads import AnswerHead
from workers.gateway.records.tally import Tally

AnyContinuation = Continuation | NamedContinuation


class Attempting(Ending):
    """`last_progress_at` is when something came of it last."""

    __slots__ = (
        "_attempt",
        "_awaits_first_token",
        "_continuation",
        "_facilities",
        "_head",
        "_held_bytes",
        "_last_words",
        "_pieces",
        "_refusals",
        "_stream",
        "last_progress_at",
    )

    def __init__(
        self, facilities: Facilities, question: Question, answer: ClientAnswer, tally: Tally, place: Place
    ) -> None:
        super().__init__(question, answer, tally, place, facilities.monotonic)
        self._facilities = facilities
        self._attempt: Attempt | CountedAttempt | Share | None = None
        self._head: AnswerHead | None = None
        self._stream: AnswerStream | None = None
        self._continuation: AnyContinuation | None = None
        self._last_words: LastWords | None = None
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._refusals: list[tuple[AnswerHead, bytes]] = []
        self._awaits_first_token = True
        self.last_progress_at = self._monotonic()

    def _may_ask_another(self) -> bool:
        """Whether there is an engine that has not turned the request away; else the client gets the engine's word."""
        version_id = self._tally.settlement.version_id
        return self._place.is_held and self._facilities.driver.has_choice(version_id, len(self._refusals) + 1)

    def _may_run_elsewhere(self) -> bool:
        """Whether there is an engine that has not failed it; else the client gets the engine's word."""
        settlement = self._tally.settlement
        return self._place.is_held and self._facilities.driver.has_choice(settlement.version_id, settlement.attempts)

    def _try_again(self, retry_after_s: float | None = None) -> None:
        """Nothing has gone out: another engine may answer in place of this one."""
        self._tally.attempt_failed(self._used_so_far(), self._monotonic())
        self._forget_attempt()
        self._stream = None
        self._place.wait_again(retry_after_s=retry_after_s)

    def _forget_attempt(self) -> None:
        self._attempt = None
        self._awaits_first_token = True
        self._head = None
        self._pieces = []
        self._held_bytes = 0

    def _abandon_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.abandon()

    def _hang_up(self, then: Callable[[], None], pass_on: Callable[[bytes], None]) -> None:
        """Ends what runs at an engine; `then` follows once it is known what it had made until it heard of that."""
        attempt = self._attempt
        # Of an answer that is gone on with, only its head says how it is to be read.
        if attempt is not None and (self._head is not None or self._continuation is None):
            last_words = LastWords(
                self._tally,
                self._stream,
                self._pieces,
                open_stream=lambda: open_stream(self._question, attempt.engine),
                pass_on=pass_on,
                over=lambda last_words: self._heard_out(last_words, then),
            )
            if attempt.hang_up(last_words):
                self._last_words = last_words
                return
        self._abandon_attempt()
        then()

    def _heard_out(self, last_words: LastWords, then: Callable[[], None]) -> None:
        self._stream = last_words.stream
        then()

    def _continuation_of(self, stream: AnswerStream) -> AnyContinuation | None:
        if not self._place.is_held or self._answer.head is None or stream.text is None:
            return None
        return continue_from(self._question, stream) or continue_named(self._question, stream)

    def _engine_reported_failure(self, stream: AnswerStream) -> None:
        """In the stream itself, as vLLM does when the core of it has died; the end of the stream may come or not."""
        if self._answer.head is None and stream.text is not None and self._may_run_elsewhere():
            self._abandon_attempt()
            self._try_again()
            return
        continuation = self._continuation_of(stream)
        if continuation is not None:
            self._abandon_attempt()
            self._go_on(stream, continuation)
        elif (held := stream.release_error()) and self._head is not None:
            self._answer.send_part(self._head, held)

    def _go_on(self, stream: AnswerStream, continuation: AnyContinuation, retry_after_s: float | None = None) -> None:
        if continuation.is_complete and self._answer.head is not None:
            self._over().in_the_engines_place(stream, self._answer.head, continuation)
            return
        self._continuation = continuation
        self._tally.attempt_broke_off(self._monotonic())
        self._forget_attempt()
        self._place.wait_again(continuation.generated_tokens, retry_after_s)

    def _over(self) -> Ending:
        """It ends now. Nothing in it refers to it any more, so that its memory is free at once."""
        self._facilities.exchanges.discard(self)
        self._attempt = self._last_words = None
        return self

    def _used_so_far(self) -> Used:
        """What engines have done for an answer that ends here."""
        if self._last_words is not None:
            return self._last_words.used(self._monotonic())
        was_asked = self._attempt is not None and self._attempt.was_asked
        return self._tally.so_far(self._stream, self._monotonic(), was_asked=was_asked)
