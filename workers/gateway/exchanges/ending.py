"""How the answer to one request ends: its record first, then its last byte, then its place in the schedule.

The place is given back last, so that what is dispatched next does not delay the answer.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import structs

from workers.contracts.settlement import NOTHING, Used
from workers.contracts.usage import Outcome
from workers.gateway.apis.interface import AnswerStream
from workers.gateway.attempts.asking import Question
from workers.gateway.driving.place import Place
from workers.gateway.errors import GatewayError
from workers.gateway.exchanges.answering import ClientAnswer
from workers.gateway.exchanges.continuing import Continuation
from workers.gateway.exchanges.continuing_named import NamedContinuation
from workers.gateway.http.heads import AnswerHead
from workers.gateway.payload.bodies import with_model
from workers.gateway.records.metering import outcome_of
from workers.gateway.records.tally import Tally

CLIENT_LEFT = 499  # nginx's status for a client that closed before any answer
How = Literal["finished", "failed", "withdrawn"]


class Ending:
    """What an exchange is of, and how it ends: one of these methods is called, once."""

    __slots__ = ("_answer", "_monotonic", "_place", "_question", "_tally")

    def __init__(
        self,
        question: Question,
        answer: ClientAnswer,
        tally: Tally,
        place: Place,
        monotonic: Callable[[], float],
    ) -> None:
        self._question = question
        self._answer = answer
        self._tally = tally
        self._place = place
        self._monotonic = monotonic

    def with_stream(self, stream: AnswerStream, head: AnswerHead, last_part: bytes) -> None:
        self._settle(self._tally.of_stream(stream), "failed" if stream.has_error else "completed", head.status)
        self._answer.end(head, last_part)
        self._leave("failed" if stream.has_error else "finished")

    def with_whole(self, head: AnswerHead, body: bytes, *, is_usage_shared: bool = False) -> None:
        """`is_usage_shared`: the engine counted several requests as one, and this is what was reckoned of it."""
        is_answer = head.status < 400  # noqa: PLR2004 - HTTP
        used = self._tally.of_whole(body, self._monotonic()) if is_answer else NOTHING
        if is_usage_shared and used.source == "engine":
            used = structs.replace(used, source="estimated")
        first_token_at = self._tally.settlement.first_token_at
        if first_token_at is not None:
            self._place.first_token(first_token_at)
        if is_answer and self._question.is_renamed:
            body = with_model(body, self._question.public_model)
        self._settle(used, outcome_of(head.status), head.status)
        self._answer.send_whole(head, body)
        has_failed = head.status >= 500 or head.turns_away  # noqa: PLR2004 - HTTP
        self._place.give_back("failed" if has_failed else "finished", self._tally.used, head.retry_after_s)

    def in_the_engines_place(
        self, stream: AnswerStream, head: AnswerHead, continuation: Continuation | NamedContinuation
    ) -> None:
        """All was generated, and only the end of the stream is missing."""
        self._settle(self._tally.of_stream(stream), "completed", head.status)
        self._answer.end(head, stream.finish_whole_events() + continuation.ending())
        self._leave("failed")

    def with_error(
        self, error: GatewayError, outcome: Outcome, used: Used, stream: AnswerStream | None, how: How
    ) -> None:
        """A whole answer if nothing has gone out, an event in the stream otherwise."""
        head = self._answer.head
        if head is None:
            self._settle(used, outcome, error.status, error.code)
            self._answer.send_error(error)
        else:
            self._settle(used, outcome, head.status, error.code)
            held = stream.finish_whole_events() if stream is not None else b""
            self._answer.end(head, held + self._question.path.api.error_event(error, stream))
        self._leave(how)

    def without_client(self, used: Used, head: AnswerHead | None, stream: AnswerStream | None) -> None:
        """`head` is of the answer that the client was getting or about to get.

        SDKs close at the last event, when the end of the body may still be under way: they have had the whole answer.
        """
        if head is not None and stream is not None and stream.has_ended:
            self._settle(used, "failed" if stream.has_error else "completed", head.status)
            self._leave("failed" if stream.has_error else "finished")
            return
        self._settle(used, "client_left", head.status if head is not None else CLIENT_LEFT)
        self._leave("withdrawn")

    def _settle(self, used: Used, outcome: Outcome, status: int, error_code: str = "") -> None:
        self._tally.settle(used, outcome, status, error_code, self._monotonic())

    def _leave(self, how: How) -> None:
        self._place.give_back(how, self._tally.used)
