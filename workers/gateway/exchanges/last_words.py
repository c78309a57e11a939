"""What an engine still says of an answer that nobody waits for, until it has heard that.

To cut it off at once would lose the tokens that it had made and nobody had read, and the record would lack them.
"""

from collections.abc import Callable
from typing import Protocol

from workers.contracts.settlement import NOTHING, Used
from workers.gateway.apis.interface import AnswerStream
from workers.gateway.http.heads import AnswerHead
from workers.gateway.http.upstream import UpstreamError
from workers.gateway.records.tally import Tally


class Attempted(Protocol):
    """What runs at an engine. `hang_up` is False where it can only be cut off."""

    def hang_up(self, reader: "LastWords") -> bool: ...
    def abandon(self) -> None: ...


class LastWords:
    """Reads in the place of who asked. `pass_on` gets what was meant for the client; `over` is called once, at the end.

    `pieces` are those of an answer that is not streamed, as far as they have come.
    """

    def __init__(
        self,
        tally: Tally,
        stream: AnswerStream | None,
        pieces: list[bytes],
        *,
        open_stream: Callable[[], AnswerStream],
        pass_on: Callable[[bytes], None],
        over: Callable[["LastWords"], None],
    ) -> None:
        self.stream = stream
        self._tally = tally
        self._pieces = pieces
        self._open_stream = open_stream
        self._pass_on = pass_on
        self._over: Callable[[LastWords], None] | None = over
        self._status = 200
        self._is_whole = False

    def used(self, now: float) -> Used:
        if self.stream is None and self._is_whole:
            return self._tally.of_whole(b"".join(self._pieces), now) if self._status < 400 else NOTHING  # noqa: PLR2004
        return self._tally.so_far(self.stream, now, was_asked=True)

    def end(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            over(self)

    # -- from the engine's connection

    def answer_began(self, head: AnswerHead) -> None:
        self._status = head.status
        if head.is_event_stream and self.stream is None:
            self.stream = self._open_stream()

    def answer_received(self, pieces: list[bytes]) -> None:
        if self.stream is None:
            self._pieces += pieces
            return
        passed = self.stream.feed(b"".join(pieces))
        self._tally.passed(self.stream)
        if passed:
            self._pass_on(passed)

    def answer_ended(self, pieces: list[bytes]) -> None:
        self.answer_received(pieces)
        self._is_whole = True
        self.end()

    def answer_failed(self, error: UpstreamError) -> None:
        del error
        self.end()
