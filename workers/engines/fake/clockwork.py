"""Drives the model by a clock: wakes at the end of each step and tells listeners what their sequences gained."""

import asyncio
import math
from collections.abc import Callable
from typing import Protocol

from workers.engines.fake.exposition import EngineMetrics
from workers.engines.fake.model.continuous_batching import ContinuousBatching, StepResult
from workers.engines.fake.model.sequence import Phase, Sequence

# When the process falls behind, several steps end before listeners are told; their tokens then go out together, as
# vLLM's do under load. Beyond this lag the missed time is given up.
_MAX_LAG_S = 1.0
_MAX_STEPS_AT_ONCE = 64


AfterTurn = Callable[[], None]


def _nothing() -> None:
    return


class Listener(Protocol):
    def progressed(self, sequence: Sequence, generated_tokens: int) -> None: ...


class Clockwork:
    """`time` of the loop is the model's time."""

    def __init__(self, batch: ContinuousBatching, metrics: EngineMetrics, loop: asyncio.AbstractEventLoop) -> None:
        self.batch = batch
        self.metrics = metrics
        self.is_hanging = False
        self.after_turn: AfterTurn = _nothing
        self._loop = loop
        self._listeners: dict[Sequence, Listener] = {}
        self._step_ends_at: float | None = None
        self._steps_ended = 0
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, sequence: Sequence, listener: Listener) -> None:
        self._listeners[sequence] = listener
        self.batch.arrive(sequence, self._loop.time())
        self._wake()

    def abort(self, sequence: Sequence) -> None:
        self._listeners.pop(sequence, None)
        if self.batch.abort(sequence):
            self.metrics.finished_total["abort"] += 1

    def hang(self, *, is_hanging: bool) -> None:
        self.is_hanging = is_hanging
        self._wake()

    def _wake(self) -> None:
        """Arrivals in the same turn of the loop share the first step, as they would in vLLM's input queue."""
        if self._timer is None and not self.is_hanging:
            self._timer = self._loop.call_later(0, self._turn)

    def _turn(self) -> None:
        self._timer = None
        if self.is_hanging:
            return
        steps_before = self._steps_ended
        finished = self._catch_up()
        if self._steps_ended != steps_before:
            self._tell(finished)
        self.after_turn()
        if self._step_ends_at is not None and self._timer is None:
            self._timer = self._loop.call_later(self._wait_s(self._step_ends_at), self._turn)

    def _wait_s(self, until: float) -> float:
        """Whole milliseconds, rounded up: the loop's timers know no less, and one that rings early would ring again."""
        return math.ceil(max(until - self._loop.time(), 0.0) * 1000) / 1000

    def _catch_up(self) -> list[Sequence]:
        now = self._loop.time()
        finished: list[Sequence] = []
        if self._step_ends_at is None:
            self._step_ends_at = self.batch.begin_step(now)
            return finished
        for _ in range(_MAX_STEPS_AT_ONCE):
            if self._step_ends_at is None or self._step_ends_at > now:
                break
            result = self.batch.end_step()
            self._steps_ended += 1
            self._count(result)
            finished += result.finished
            self._step_ends_at = self.batch.begin_step(max(self._step_ends_at, now - _MAX_LAG_S))
        return finished

    def _count(self, result: StepResult) -> None:
        metrics = self.metrics
        duration_s = result.ended_at - result.started_at
        metrics.step_tokens.observe(result.decode_tokens + result.prefill_tokens)
        if result.decode_tokens:
            metrics.inter_token_latency.observe(duration_s, result.decode_tokens)
        for sequence in result.first_tokens:
            self._count_first_token(sequence, result.ended_at)
        generating = sum(1 for sequence in result.first_tokens if sequence.output_tokens)
        metrics.generation_tokens_total += result.decode_tokens + generating
        for sequence in result.finished:
            metrics.e2e_latency.observe(result.ended_at - sequence.arrived_at)
            metrics.request_generation_tokens.observe(sequence.output_tokens)

    def _count_first_token(self, sequence: Sequence, now: float) -> None:
        if sequence.preemptions and sequence.first_token_at != now:
            return
        metrics = self.metrics
        metrics.prompt_tokens_total += sequence.prompt_tokens
        metrics.cached_tokens_total += sequence.cached_tokens
        metrics.request_prompt_tokens.observe(sequence.prompt_tokens)
        metrics.time_to_first_token.observe(now - sequence.arrived_at)
        metrics.queue_time.observe((sequence.admitted_at or now) - sequence.arrived_at)

    def _tell(self, finished: list[Sequence]) -> None:
        for sequence in finished:
            listener = self._listeners.pop(sequence, None)
            if listener:
                listener.progressed(sequence, sequence.output_tokens)
        for sequence in list(self.batch.decoding):
            if sequence.phase is Phase.DECODING and sequence in self._listeners:
                self._listeners[sequence].progressed(sequence, self.batch.generated_tokens(sequence))
