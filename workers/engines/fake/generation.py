"""One generating request, from the call to the last byte."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from workers.engines.fake.calls import GenerationCall
from workers.engines.fake.errors import APIError
from workers.engines.fake.model.sequence import Sequence
from workers.engines.fake.plan import AnswerPlan
from workers.engines.fake.shapes import Timings, Usage


class Reply(Protocol):
    """Where the answer goes: one HTTP exchange."""

    def answer(self, status: int, body: bytes) -> None: ...
    def start_stream(self) -> None: ...
    def send(self, content: bytes) -> None: ...
    def end_stream(self) -> None: ...
    def reset(self) -> None: ...


class AnswerWriter(Protocol):
    """The bytes of an answer in one API's shape. A stream is started, opened with its first token, and ended."""

    def started(self) -> list[bytes]: ...
    def opening(self, choices: list[int], usage: Usage) -> list[bytes]: ...
    def text(self, index: int, plan: AnswerPlan, start: int, end: int, usage: Usage | None) -> bytes: ...
    def ending(self, plan: AnswerPlan, usage: Usage, timings: Timings | None) -> list[bytes]: ...
    def broken(self, error: APIError) -> list[bytes]: ...
    def whole(self, plans: list[AnswerPlan], usage: Usage, timings: Timings | None) -> bytes: ...


class Choice(Struct, eq=False):
    """`full_block_tokens` of the prompt fill whole KV blocks, which is what the prefix cache keeps.

    `sent_tokens` have been written to a stream, `generated_tokens` made by the engine.
    """

    index: int
    plan: AnswerPlan
    sequence: Sequence
    full_block_tokens: int
    sent_tokens: int = 0
    generated_tokens: int = 0

    @property
    def is_complete(self) -> bool:
        return self.generated_tokens == len(self.plan.tokens)


OnEnd = Callable[["Generation", str], None]


class Generation:
    """Collects what the choices gain and writes it. `on_end` is called once, with the outcome."""

    def __init__(self, call: GenerationCall, writer: AnswerWriter, reply: Reply, on_end: OnEnd) -> None:
        self.call = call
        self.choices: dict[Sequence, Choice] = {}
        self.reset_after_tokens: int | None = None
        self._reply = reply
        self._writer = writer
        self._on_end = on_end
        self._has_begun = False
        self._is_over = False

    def add(self, choice: Choice) -> None:
        self.choices[choice.sequence] = choice

    def begin(self) -> None:
        """A stream's headers go out at once, before the prompt is read."""
        if self.call.is_stream:
            self._reply.start_stream()
            self._send(self._writer.started())

    def progressed(self, sequence: Sequence, generated_tokens: int) -> None:
        choice = self.choices[sequence]
        choice.generated_tokens = generated_tokens
        if self._is_over:
            return
        if self.call.is_stream:
            self._stream(choice)
        if not self._is_over and all(each.is_complete for each in self.choices.values()):
            self._finish()

    def fail(self, error: APIError) -> None:
        """As vLLM when its engine dies: in a stream an error event and [DONE], else the error."""
        if self._is_over:
            return
        if self.call.is_stream:
            self._send(self._writer.broken(error))
            self._reply.end_stream()
        else:
            self._reply.answer(error.status, error.encode())
        self._end("error")

    def abandon(self) -> None:
        """The client has gone."""
        self._end("abort")

    @property
    def completion_tokens(self) -> int:
        return sum(choice.generated_tokens for choice in self.choices.values())

    @property
    def cached_tokens(self) -> int:
        """Of each prompt once, as its first choice found it."""
        return sum(choice.sequence.cached_tokens for choice in self._firsts())

    @property
    def prompt_tokens(self) -> int:
        return sum(choice.sequence.prompt_tokens for choice in self._firsts())

    def _firsts(self) -> list[Choice]:
        return [choice for choice in self.choices.values() if choice.index % self.call.n == 0]

    def _stream(self, choice: Choice) -> None:
        if not self._has_begun:
            self._has_begun = True
            indexes = [each.index for each in self.choices.values()]
            self._send(self._writer.opening(indexes, self._usage_of(choice, 0)))
        start, end = choice.sent_tokens, choice.generated_tokens
        choice.sent_tokens = end
        self._reply.send(self._writer.text(choice.index, choice.plan, start, end, self._usage_of(choice, end)))
        if self.reset_after_tokens is not None and self.completion_tokens >= self.reset_after_tokens:
            self._end("error")
            self._reply.reset()

    def _send(self, events: list[bytes]) -> None:
        for event in events:
            self._reply.send(event)

    def _usage_of(self, choice: Choice, completion_tokens: int) -> Usage:
        """Running usage is that of one choice, in vLLM too."""
        return Usage(
            prompt_tokens=choice.sequence.prompt_tokens,
            completion_tokens=completion_tokens,
            cached_tokens=choice.sequence.cached_tokens,
            created_tokens=choice.full_block_tokens - choice.sequence.cached_tokens,
        )

    def _usage(self) -> Usage:
        full_block_tokens = sum(choice.full_block_tokens for choice in self._firsts())
        return Usage(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cached_tokens=self.cached_tokens,
            created_tokens=full_block_tokens - self.cached_tokens,
        )

    def _timings(self) -> Timings | None:
        """Given for a single choice only."""
        if len(self.choices) > 1:
            return None
        sequence = next(iter(self.choices))
        first_token_at = sequence.first_token_at or sequence.ended_at
        return Timings(
            ttft_s=first_token_at - sequence.arrived_at,
            generation_s=sequence.ended_at - first_token_at,
            queue_s=(sequence.admitted_at or sequence.arrived_at) - sequence.arrived_at,
            tokens=sequence.output_tokens,
        )

    def _finish(self) -> None:
        plans = [choice.plan for choice in self.choices.values()]
        if self.call.is_stream:
            self._send(self._writer.ending(plans[0], self._usage(), self._timings()))
            self._reply.end_stream()
        else:
            self._reply.answer(200, self._writer.whole(plans, self._usage(), self._timings()))
        self._end(plans[0].finish_reason)

    def _end(self, outcome: str) -> None:
        if not self._is_over:
            self._is_over = True
            self._on_end(self, outcome)
