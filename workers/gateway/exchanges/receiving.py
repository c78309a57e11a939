"""What an engine's answer does to a request: it passes, is made again, or is gone on with from where it broke off."""

from workers.contracts.usage import Outcome
from workers.gateway import errors
from workers.gateway.apis.interface import AnswerStream
from workers.gateway.attempts.reading import open_stream
from workers.gateway.driving.batching import Share
from workers.gateway.errors import GatewayError
from workers.gateway.exchanges.attempting import AnyContinuation, Attempting
from workers.gateway.exchanges.ending import How
from workers.gateway.http.heads import AnswerHead
from workers.gateway.http.upstream import UpstreamError

# A batch of the longest embeddings has some hundred megabytes of text; an engine that never ends has no bound.
MAX_WHOLE_ANSWER_BYTES = 512 * 1024 * 1024


class Receiving(Attempting):
    """The reader of whatever an engine sends; more of what is made again is in attempting.py."""

    __slots__ = ()

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

    def _continue_with(self, head: AnswerHead, continuation: AnyContinuation) -> None:
        if head.is_event_stream and self._attempt is not None:
            self._stream = continuation.open_stream(self._question, self._attempt.engine)
        elif (head.status >= 500 or head.turns_away) and self._stream is not None:  # noqa: PLR2004 - HTTP
            self._abandon_attempt()
            self._go_on(self._stream, continuation, head.retry_after_s)
        else:
            self._give_up_now()

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

    def _give_up_now(self) -> None:
        """What the engine sends is not to be read."""
        self._abandon_attempt()
        self._break_off(errors.engine_died(), "failed", "failed")

    def _break_off(self, error: GatewayError, outcome: Outcome, how: How) -> None:
        used = self._used_so_far()
        self._over().with_error(error, outcome, used, self._stream, how)
