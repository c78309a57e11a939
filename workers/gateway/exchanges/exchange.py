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
from workers.gateway.attempts.asking import Question
from workers.gateway.attempts.attempt import Attempt
from workers.gateway.attempts.engines import Engine
from workers.gateway.driving.batching import Batch
from workers.gateway.driving.place import Place
from workers.gateway.driving.terms import Terms
from workers.gateway.errors import GatewayError
from workers.gateway.exchanges.answering import ClientAnswer
from workers.gateway.exchanges.facilities import Facilities
from workers.gateway.exchanges.receiving import Receiving
from workers.gateway.http.heads import AnswerHead, Headers
from workers.gateway.http.server import ClientConnection
from workers.gateway.http.upstream import UpstreamError
from workers.gateway.records.tally import Tally
from workers.scheduling.interface import Cancel, Reject

logger = logging.getLogger(__name__)


class Exchange(Receiving):
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


def _nobody(passed: bytes) -> None:
    """Who was to get it has left."""
    del passed
