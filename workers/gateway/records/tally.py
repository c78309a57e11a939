"""What one request has used by now, and its one record in the end.

From the dispatch on it stands in the journal too, so that it settles even if this process does not live to do it.
"""

from typing import Final

from workers.contracts.settlement import BYTES_PER_TOKEN, NOTHING, Settlement, Used
from workers.contracts.usage import Outcome
from workers.gateway.apis.interface import AnswerStream
from workers.gateway.attempts.asking import Question
from workers.gateway.attempts.engines import Engine
from workers.gateway.events.dialects import dialect_of
from workers.gateway.events.streams import StreamFilter
from workers.gateway.payload.bodies import Answer
from workers.gateway.payload.peeks import choices_of, limit_of_all
from workers.gateway.records.journal import Journal, Slot
from workers.gateway.records.metering import Meter, estimated_from_first, reported

_CHOICE_KEY = b'"finish_reason":'
_SHORT_TIMES: Final = [b"%.2f" % (hundredths / 100) for hundredths in range(2048)]


class Tally:
    """`settlement` is filled as the request goes on."""

    __slots__ = ("_engine", "_journal", "_meter", "_question", "_slot", "is_settled", "settlement", "used")

    def __init__(self, meter: Meter, journal: Journal, question: Question, settlement: Settlement) -> None:
        self._meter = meter
        self._journal = journal
        self._question = question
        self._slot: Slot | None = None
        self._engine: Engine | None = None
        self.settlement = settlement
        self.used = NOTHING
        self.is_settled = False
        if not question.path.is_metered:
            settlement.is_metered = False
        self._note_size()
        meter.identify(settlement)

    def ask_instead(self, question: Question) -> None:
        """It waits for another version now."""
        self._question, self._slot = question, None
        self._note_size()

    def _note_size(self) -> None:
        question, settlement = self._question, self.settlement
        settlement.expected_input_tokens = question.expected_input_tokens
        if question.output_limit is not None:
            settlement.output_limit = limit_of_all(question.peek, question.output_limit)

    def forget(self) -> None:
        """It leaves no record here."""
        self.is_settled = True
        self._journal.forget(self.settlement.record_id)
        self._meter.forget(self.settlement)

    def note(self) -> None:
        """In the journal: what is known by now of a request that goes on."""
        if not self.is_settled and not self.settlement.is_kept:
            self._slot = self._journal.open(self.settlement)

    def note_wait(self) -> None:
        """Of one that has been asked for nothing yet."""
        if self._slot is None:
            self.note()

    def dispatched(self, engine: Engine, now: float) -> None:
        settlement = self.settlement
        self._engine = engine
        settlement.attempts += 1
        settlement.endpoint_id = engine.endpoint.endpoint_id
        settlement.dispatched_at = settlement.on_engine_since = now
        settlement.pace_tokens_per_s = engine.tokens_per_s * choices_of(self._question.peek)
        self.note()

    def first_token_came(self, now: float) -> None:
        """Of an answer that goes on elsewhere it came from the first engine."""
        if self.settlement.first_token_at is not None:
            return
        self.settlement.first_token_at = now
        if self._slot is not None:
            self._slot.first_token_after(now - self.settlement.arrived_at)

    def passed(self, stream: AnswerStream) -> None:
        """More of the stream has come from the engine."""
        slot = self._slot
        if slot is None:
            return
        if isinstance(stream, StreamFilter) and stream.counts.output_tokens >= 0:
            slot.count(stream.counts.input_tokens, stream.counts.output_tokens)
            return
        usage = stream.usage
        if usage is None:
            slot.guess(stream.input_tokens or 0, stream.events_with_output)
            return
        slot.count(usage.prompt_tokens or 0, usage.completion_tokens or 0)
        if usage.prompt_tokens_details is not None:
            slot.detail(usage.cached_tokens, usage.reasoning_tokens)

    def attempt_failed(self, wasted: Used, now: float) -> None:
        """Its output is thrown away, and another attempt may follow."""
        self.settlement.wasted_tokens += wasted.output_tokens
        self.settlement.first_token_at = None
        if self._slot is not None:
            self._slot.guess(0, 0)
        self.attempt_broke_off(now)

    def attempt_broke_off(self, now: float) -> None:
        """Its output is kept, and another engine may continue it."""
        settlement = self.settlement
        if settlement.on_engine_since is not None:
            settlement.spent_engine_s += now - settlement.on_engine_since
        settlement.on_engine_since = None
        self._engine = None

    def settle(self, used: Used, outcome: Outcome, status: int, error_code: str, now: float) -> None:
        assert not self.is_settled, "one record per request"  # noqa: S101 - an invariant
        self.is_settled = True
        self.used = used if self.settlement.is_metered else NOTHING
        if outcome == "completed":
            self._learn_pace(now)
        self._meter.settle(self.settlement, self.used, outcome, status, error_code)

    def _learn_pace(self, now: float) -> None:
        """From what an engine counted: an estimate, or what a path answers that generates nothing, is no pace."""
        engine, dispatched_at = self._engine, self.settlement.dispatched_at
        if engine is not None and dispatched_at is not None and self.used.source == "engine":
            tokens_of_each = self.used.output_tokens / choices_of(self._question.peek)
            engine.tokens_per_s = _learned_pace(engine.tokens_per_s, tokens_of_each, now - dispatched_at)

    # -- how much

    def of_stream(self, stream: AnswerStream) -> Used:
        usage = stream.usage
        if usage is not None and not usage.is_empty:
            return reported(usage)
        if stream.failed_at_once:
            return NOTHING  # as of one that it refuses by its status
        return self.settlement.estimate(stream.events_with_output, stream.input_tokens)

    def of_whole(self, body: bytes, now: float) -> Used:
        answer = self._question.path.api.read_answer(body)
        self._learn_first_token(answer, now)
        if answer.usage is None or answer.usage.is_empty:
            return self.settlement.estimate(len(body) // BYTES_PER_TOKEN if self._question.path.generates else 0)
        choices = body.count(_CHOICE_KEY)
        if choices > 1 and self._engine is not None and not dialect_of(self._engine.endpoint).counts_every_choice:
            prompts = choices // choices_of(self._question.peek)
            return estimated_from_first(answer.usage, choices=choices, prompts=max(prompts, 1))
        return reported(answer.usage)

    def so_far(self, stream: AnswerStream | None, now: float, *, was_asked: bool) -> Used:
        """Of an answer that ends here."""
        if stream is not None:
            return self.of_stream(stream)
        return self._of_silence(now) if was_asked else NOTHING

    def _of_silence(self, now: float) -> Used:
        """Of an engine that was asked and has sent nothing that could be counted."""
        settlement = self.settlement
        if self._engine is None or settlement.is_stream:
            return settlement.estimate(0)
        asked_at = settlement.dispatched_at if settlement.dispatched_at is not None else now
        return settlement.estimate(int(settlement.pace_tokens_per_s * (now - asked_at)))

    def _learn_first_token(self, answer: Answer, now: float) -> None:
        """Of an answer in one piece only the engine knows when its first token came; what cannot be stays unknown."""
        if answer.metrics is None and answer.timings is None:
            return
        asked_at = self.settlement.dispatched_at
        if asked_at is not None and answer.ttft_ms is not None:
            first_token_at = asked_at + answer.ttft_ms / 1000
            self.settlement.first_token_at = first_token_at if asked_at <= first_token_at <= now else None

    def server_timing(self, now: float) -> bytes:
        """A header line: how long the request waited here, and then for the head of the engine's answer."""
        asked_at = self.settlement.dispatched_at or now
        queue, upstream = _in_ms(asked_at - self.settlement.arrived_at), _in_ms(now - asked_at)
        return b"server-timing: queue;dur=" + queue + b", upstream;dur=" + upstream + b"\r\n"


def _learned_pace(known: float, output_tokens: float, seconds: float) -> float:
    """Tokens per second of one choice; 0 is unknown."""
    if output_tokens <= 0 or seconds <= 0:
        return known
    pace = output_tokens / seconds
    return 0.8 * known + 0.2 * pace if known else pace


def _in_ms(seconds: float) -> bytes:
    """To two places. Most are short, and made beforehand."""
    hundredths = int(seconds * 100_000 + 0.5)
    return _SHORT_TIMES[hundredths] if 0 <= hundredths < len(_SHORT_TIMES) else b"%.2f" % (hundredths / 100)
