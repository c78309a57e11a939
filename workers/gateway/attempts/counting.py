"""An attempt that asks its engine first how many tokens a text has, because what it asks for depends on that."""

from collections.abc import Callable

import msgspec

from workers.gateway.attempts.attempt import Attempt
from workers.gateway.attempts.engines import Engine
from workers.gateway.http.call import Asker
from workers.gateway.http.heads import AnswerHead
from workers.gateway.http.upstream import AnswerReader, UpstreamError


class _Counted(msgspec.Struct):
    count: int


_decode = msgspec.json.Decoder(_Counted).decode


class CountedAttempt:
    """As an `Attempt`. `ask` makes the message from the count, an empty one where nothing is left to ask for."""

    def __init__(self, engine: Engine, message: bytes, asker: Asker, ask: Callable[[int], bytes]) -> None:
        self.engine = engine
        self._asker = asker
        self._ask = ask
        self._pieces: list[bytes] = []
        self._status = 0
        self._is_counting = True
        self._attempt = Attempt(engine, message, self)

    @property
    def was_asked(self) -> bool:
        return not self._is_counting and self._attempt.was_asked

    def begin(self) -> None:
        self._attempt.begin()

    def failed(self) -> bool:
        return self._is_counting or self._attempt.failed()

    def ended(self) -> None:
        self._attempt.ended()

    def abandon(self) -> None:
        self._attempt.abandon()

    def hang_up(self, reader: AnswerReader) -> bool:
        return not self._is_counting and self._attempt.hang_up(reader)

    def pause(self) -> None:
        if not self._is_counting:
            self._attempt.pause()

    def resume(self) -> None:
        if not self._is_counting:
            self._attempt.resume()

    # -- the count

    @property
    def is_client_stalled(self) -> bool:
        return False

    def answer_began(self, head: AnswerHead) -> None:
        self._status = head.status

    def answer_received(self, pieces: list[bytes]) -> None:
        self._pieces += pieces

    def answer_ended(self, pieces: list[bytes]) -> None:
        self._attempt.ended()
        try:
            count = _decode(b"".join(self._pieces + pieces)).count
        except msgspec.DecodeError:
            self._asker.answer_failed(UpstreamError(f"it does not count tokens: {self._status}"))
            return
        message = self._ask(count)
        if not message:
            self._asker.answer_failed(UpstreamError("all was generated"))
            return
        self._is_counting = False
        self._attempt = Attempt(self.engine, message, self._asker)
        self._attempt.begin()

    def answer_failed(self, error: UpstreamError) -> None:
        if self._attempt.failed():
            self._asker.answer_failed(error)
