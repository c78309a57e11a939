"""One request for an engine, from its arrival to its usage record and the last byte of its answer.

waiting ──dispatched──▶ asking ──head──▶ answering ──end──▶ settled
   │  ◀──failed, nothing sent──┘  │          │
   └──────────────refused, client left, engine died──────▶ settled
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from workers.contracts.usage import Outcome
from workers.gateway import errors
from workers.gateway.answering import ClientAnswer
from workers.gateway.apis.interface import AnswerStream
from workers.gateway.asking import Question
from workers.gateway.bodies import Answer, with_model
from workers.gateway.dialects import dialect_of
from workers.gateway.driver import Driver
from workers.gateway.engines import Engine
from workers.gateway.errors import GatewayError
from workers.gateway.heads import AnswerHead, Headers
from workers.gateway.metering import (
    BYTES_PER_TOKEN,
    NOTHING,
    Meter,
    Settlement,
    Used,
    estimated,
    estimated_from_first,
    outcome_of,
    reported,
)
from workers.gateway.server import ClientConnection
from workers.gateway.streams import StreamFilter
from workers.gateway.terms import Terms
from workers.gateway.upstream import UpstreamConnection, UpstreamError
from workers.scheduling.interface import Cancel, Reject

_CHOICE_KEY = b'"finish_reason":'
_CLIENT_LEFT = 499  # nginx's status for a client that closed before any answer
PROGRESS_EACH = 64


class ExchangeOwner(Protocol):
    """What an exchange needs of the gateway."""

    driver: Driver
    meter: Meter
    monotonic: Callable[[], float]
    exchanges: set["Exchange"]


class Exchange:
    """Owns the answer to one client request; every path through it ends in `_settle`, once."""

    __slots__ = (
        "_answer",
        "_client",
        "_connecting",
        "_engine",
        "_head",
        "_is_settled",
        "_owner",
        "_pieces",
        "_progress_due",
        "_question",
        "_scheduled_id",
        "_settlement",
        "_stream",
        "_upstream",
        "_used",
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
        self._settlement = settlement
        self._scheduled_id: int | None = None
        self._engine: Engine | None = None
        self._upstream: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._head: AnswerHead | None = None
        self._stream: AnswerStream | None = None
        self._pieces: list[bytes] = []
        self._is_settled = False
        self._used = NOTHING
        self._progress_due = PROGRESS_EACH
        self.last_progress_at = owner.monotonic()

    def begin(self, terms: Terms) -> None:
        self._client.owner = self
        self._owner.exchanges.add(self)
        scheduled_id = self._owner.driver.submit(self, terms, self._settlement.request_id)
        self._scheduled_id = None if self._is_settled else scheduled_id

    @property
    def public_model(self) -> str:
        return self._question.public_model

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the scheduler, and not for an engine or the client."""
        return self._engine is None

    @property
    def is_client_stalled(self) -> bool:
        return self._client.write_paused_at is not None

    @property
    def _status(self) -> int:
        """The engine's; 0 before its answer began."""
        return self._head.status if self._head is not None else 0

    # -- from the scheduler's driver

    def dispatched(self, engine: Engine) -> None:
        self._engine = engine
        settlement = self._settlement
        settlement.attempts += 1
        settlement.endpoint_id = engine.endpoint.endpoint_id
        settlement.dispatched_at = self.last_progress_at = self._owner.monotonic()
        connection = engine.pool.take_idle()
        if connection is not None:
            self._ask(engine, connection)
        else:
            self._connecting = asyncio.create_task(self._connect(engine))

    def refused(self, reject: Reject) -> None:
        self._scheduled_id = None
        answers = {
            "queue_full": errors.queue_full(reject.retry_after_s),
            "no_endpoint": errors.no_endpoint(reject.retry_after_s),
            "attempts_exhausted": errors.engine_unavailable(),
            "cannot_meet_deadline": errors.cannot_meet_deadline(reject.retry_after_s),
        }
        self._answer_error(
            answers[reject.code], NOTHING, "failed" if reject.code == "attempts_exhausted" else "refused"
        )

    def cancelled(self, cancel: Cancel) -> None:
        is_budget = cancel.reason == "workflow_budget"
        self.give_up(errors.workflow_budget() if is_budget else errors.workflow_deadline())

    def engine_stalled(self) -> None:
        """What is there must run elsewhere, as if the engine had broken off."""
        self._abandon_upstream()
        self._upstream = self._connecting = None
        self.answer_failed(UpstreamError("the engine makes no progress"))

    # -- from the client's connection

    def client_left(self) -> None:
        if not self._is_settled:
            self._abandon_upstream()
            self._settle(self._used_so_far(), "client_left", self._status or _CLIENT_LEFT)
            self._leave_schedule(is_failed=False, is_whole=False)

    def client_paused(self) -> None:
        if self._upstream is not None:
            self._upstream.transport.pause_reading()

    def client_resumed(self) -> None:
        self.last_progress_at = self._owner.monotonic()
        if self._upstream is not None:
            self._upstream.transport.resume_reading()

    # -- from the gateway

    def give_up(self, error: GatewayError) -> None:
        """The engine makes no progress, or the gateway stops: the client gets an error instead of silence."""
        self._abandon_upstream()
        is_failed = self._engine is not None
        self._break_off(error, "failed" if is_failed else "refused")
        self._leave_schedule(is_failed=is_failed)

    # -- from the engine's connection

    def answer_began(self, head: AnswerHead) -> None:
        self.last_progress_at = self._owner.monotonic()
        self._head = head
        self._answer.timing = server_timing(self._settlement, self.last_progress_at)
        if head.is_event_stream and self._engine is not None:
            self._stream = self._open_stream(self._engine)

    def answer_received(self, pieces: list[bytes]) -> None:
        self.last_progress_at = self._owner.monotonic()
        if self._stream is None:
            self._pieces += pieces
            return
        passed = self._stream.feed(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._settlement.first_token_at is None:
            self._note_first_token(self._stream)
        if self._stream.events_with_output >= self._progress_due:
            self._note_progress(self._stream.events_with_output)
        if passed and self._head is not None:
            self._answer.send_part(self._head, passed)
        elif self._stream.is_too_long:
            self.give_up(errors.engine_died())

    def answer_ended(self, pieces: list[bytes]) -> None:
        self._upstream = None
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
        upstream, self._upstream = self._upstream, None
        if self._answer.has_begun:
            self._break_off(errors.engine_died(), "failed")
            self._leave_schedule(is_failed=True)
        elif upstream is not None and upstream.was_used and not self._status and self._engine is not None:
            # The engine closed it while it was idle: not a failure yet.
            self._connecting = asyncio.create_task(self._connect(self._engine))
        else:
            self._try_again()

    # -- asking

    async def _connect(self, engine: Engine) -> None:
        try:
            connection = await engine.pool.connect()
        except UpstreamError as error:
            self._connecting = None
            self.answer_failed(error)
            return
        self._connecting = None
        self._ask(engine, connection)

    def _ask(self, engine: Engine, connection: UpstreamConnection) -> None:
        self._upstream = connection
        connection.ask(self._question.for_engine(engine), self)
        if self.is_client_stalled:
            connection.transport.pause_reading()

    def _try_again(self) -> None:
        self._engine = None
        self._head = None
        self._pieces = []
        self._stream = None
        self._settlement.first_token_at = None
        if self._scheduled_id is not None:
            self._owner.driver.failed(self._scheduled_id, may_retry=True)

    def _abandon_upstream(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        if self._upstream is not None:
            self._upstream.abandon()

    # -- answering

    def _note_first_token(self, stream: AnswerStream) -> None:
        if self._settlement.first_token_at is None and stream.has_first_token:
            self._settlement.first_token_at = self._owner.monotonic()
            if self._scheduled_id is not None and self._stream is not None:
                self._owner.driver.first_token(self._scheduled_id)

    def _note_progress(self, output_tokens: int) -> None:
        """Each time that the answer is half as long again, so that the longest costs no more than a few calls."""
        self._progress_due = output_tokens + max(PROGRESS_EACH, output_tokens // 2)
        if self._scheduled_id is not None:
            self._owner.driver.progress(self._scheduled_id, output_tokens)

    def _open_stream(self, engine: Engine) -> AnswerStream:
        question = self._question
        rename = (question.served_name, question.public_model) if question.is_renamed else None
        return question.path.api.open_stream(rename) or self._make_filter(engine, rename)

    def _make_filter(self, engine: Engine, rename: tuple[str, str] | None) -> StreamFilter:
        question = self._question
        peek = question.peek
        dialect = dialect_of(engine.endpoint)
        return StreamFilter(
            dialect,
            hide_usage=question.needs_usage and dialect.hides_usage_event(peek),
            hide_counts=question.needs_usage and dialect.hides_counts(peek),
            rename=rename,
            fingerprint=engine.fingerprint,
            choices_per_prompt=peek.choices_per_prompt,
        )

    def _end_stream(self, stream: AnswerStream, head: AnswerHead, last_part: bytes) -> None:
        last = stream.feed(last_part) + stream.finish()
        self._note_first_token(stream)
        if self._engine is not None:
            self._engine.fingerprint = stream.fingerprint
        self._settle(self._used_so_far(), "failed" if stream.has_error else "completed", head.status)
        self._answer.end(head, last)
        self._leave_schedule(is_failed=stream.has_error)

    def _end_whole(self, head: AnswerHead, body: bytes) -> None:
        is_answer = head.status < 400  # noqa: PLR2004 - HTTP
        used = self._used_by_whole(body) if is_answer else NOTHING
        if is_answer and self._question.is_renamed:
            body = with_model(body, self._question.public_model)
        self._settle(used, outcome_of(head.status), head.status)
        self._answer.send_whole(head, body)
        self._leave_schedule(is_failed=head.status >= 500)  # noqa: PLR2004 - HTTP

    def _break_off(self, error: GatewayError, outcome: Outcome) -> None:
        """Ends the answer with an error: a whole one if nothing has gone out, an event in the stream otherwise."""
        used = self._used_so_far()
        if not self._answer.has_begun or self._head is None:
            self._answer_error(error, used, outcome)
            return
        self._settle(used, outcome, self._status, error.code)
        held = self._stream.finish_whole_events() if self._stream is not None else b""
        last_event = self._question.path.api.error_event(error, self._stream)
        self._answer.end(self._head, held + last_event)

    def _answer_error(self, error: GatewayError, used: Used, outcome: Outcome) -> None:
        self._settle(used, outcome, error.status, error.code)
        self._answer.send_error(error)

    # -- settling

    def _settle(self, used: Used, outcome: Outcome, status: int, error_code: str = "") -> None:
        assert not self._is_settled, "one record per request"  # noqa: S101 - an invariant
        self._is_settled = True
        self._used = used
        self._owner.exchanges.discard(self)
        dispatched_at = self._settlement.dispatched_at
        if outcome == "completed" and self._engine is not None and dispatched_at is not None:
            self._engine.learn_pace(used.output_tokens, self._owner.monotonic() - dispatched_at)
        if not self._question.path.is_metered:
            used = NOTHING
        self._owner.meter.settle(self._settlement, used, outcome, status, error_code)

    def _leave_schedule(self, *, is_failed: bool, is_whole: bool = True) -> None:
        """Gives the slot back, after the client's last byte: what is dispatched next must not delay it."""
        request_id, self._scheduled_id = self._scheduled_id, None
        if request_id is None:
            return
        if is_failed:
            self._owner.driver.failed(request_id, may_retry=False, used=self._used)
        elif self._engine is not None and self._status and is_whole:
            self._owner.driver.finished(request_id, self._used)
        else:
            self._owner.driver.withdrawn(request_id, self._used)

    def _used_by_whole(self, body: bytes) -> Used:
        answer = self._question.path.api.read_answer(body)
        self._learn_first_token(answer)
        if answer.usage is None:
            return self._estimate(len(body) // BYTES_PER_TOKEN)
        choices = body.count(_CHOICE_KEY)
        if choices > 1 and self._engine is not None and not dialect_of(self._engine.endpoint).counts_every_choice:
            prompts = choices // self._question.peek.choices_per_prompt
            return estimated_from_first(answer.usage, choices=choices, prompts=max(prompts, 1))
        return reported(answer.usage)

    def _learn_first_token(self, answer: Answer) -> None:
        """Of an answer in one piece only the engine knows when its first token came; else it stays unknown."""
        asked_at = self._settlement.dispatched_at
        ttft_ms = answer.ttft_ms
        if asked_at is None or ttft_ms is None:
            return
        first_token_at = self._settlement.first_token_at = asked_at + ttft_ms / 1000
        if self._scheduled_id is not None and first_token_at <= self._owner.monotonic():
            self._owner.driver.first_token(self._scheduled_id, first_token_at)

    def _used_so_far(self) -> Used:
        """What the engine has done for an answer that ends here."""
        if self._engine is None or (self._upstream is None and not self._status):
            return NOTHING
        if self._stream is not None:
            usage = self._stream.usage
            if usage is not None:
                return reported(usage)
            return self._estimate(self._stream.events_with_output, self._stream.input_tokens)
        if self._question.peek.is_stream:
            return self._estimate(0)
        asked_at = self._settlement.dispatched_at or self.last_progress_at
        return self._estimate(int(self._engine.tokens_per_s * (self._owner.monotonic() - asked_at)))

    def _estimate(self, output_tokens: int, input_tokens: int | None = None) -> Used:
        """`input_tokens` where the engine has told at least those."""
        limit = self._question.peek.output_limit
        return estimated(
            prompt_bytes=self._question.prompt_bytes,
            input_tokens=input_tokens,
            output_tokens=output_tokens if limit is None else min(output_tokens, limit),
        )


def server_timing(settlement: Settlement, now: float) -> Headers:
    """How long the request waited here, and then for the head of the engine's answer, in milliseconds."""
    asked_at = settlement.dispatched_at or now
    times_ms = ((asked_at - settlement.arrived_at) * 1000, (now - asked_at) * 1000)
    return [(b"server-timing", b"queue;dur=%.2f, upstream;dur=%.2f" % times_ms)]
