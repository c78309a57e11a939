"""Continuous batching as vLLM does it, as a discrete-event model: one step after the other, each with its end.

Every decoding sequence gains one token in each step, so nothing is done per sequence and step: how many tokens a
sequence has follows from the number of steps since it joined, when it ends is known when it joins, and how many blocks
a step needs is counted by the step's remainder. A step costs time only for what begins, ends or is prefilled in it.
"""

import heapq
from collections import defaultdict

from msgspec import Struct, field

from workers.engines.fake.model.kv_blocks import KVBlocks
from workers.engines.fake.model.sequence import Phase, Sequence
from workers.scheduling.latency.step_cost import StepCost


class BatchLimits(Struct, frozen=True, kw_only=True):
    """`max_batched_tokens` is the token budget of a step; a decode takes one of it, a prefill chunk its length."""

    max_sequences: int = 256
    max_batched_tokens: int = 8192
    block_size_tokens: int = 16

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_size_tokens)


class StepResult(Struct, frozen=True):
    """Besides `finished`, everything in the model's `decoding` has one token more."""

    started_at: float
    ended_at: float
    first_tokens: list[Sequence]
    finished: list[Sequence]
    decode_tokens: int
    prefill_tokens: int


class _Step(Struct):
    started_at: float
    ends_at: float = 0.0
    prefill_tokens: int = 0
    chunks: dict[Sequence, int] = field(default_factory=dict)

    def add(self, sequence: Sequence, chunk: int) -> None:
        self.chunks[sequence] = chunk
        self.prefill_tokens += chunk

    def drop(self, sequence: Sequence) -> None:
        self.prefill_tokens -= self.chunks.pop(sequence, 0)


class ContinuousBatching:
    """`begin_step` says when the step ends; `end_step` is called at that time. Arrivals and aborts come in between."""

    def __init__(self, cost: StepCost, limits: BatchLimits, kv: KVBlocks) -> None:
        if limits.max_batched_tokens < limits.max_sequences:
            raise ValueError("the token budget of a step must allow one token for each sequence")
        self.cost = cost
        self.limits = limits
        self.kv = kv
        self.decoding: dict[Sequence, None] = {}
        self.prefilling: dict[Sequence, None] = {}
        self.waiting_count = 0
        self.preemptions_total = 0
        self.prefix_queried_tokens_total = 0
        self.prefix_hit_tokens_total = 0
        self._waiting: list[tuple[int, int, Sequence]] = []
        self._arrivals = 0
        self._steps_begun = 0
        self._steps_ended = 0
        self._context_tokens = 0
        self._growing_by_remainder = [0] * limits.block_size_tokens
        self._finishing_by_step: defaultdict[int, list[Sequence]] = defaultdict(list)
        self._step: _Step | None = None

    @property
    def running_count(self) -> int:
        return len(self.decoding) + len(self.prefilling)

    def generated_tokens(self, sequence: Sequence) -> int:
        if sequence.phase is Phase.DECODING:
            return sequence.generated_before + self._steps_ended - sequence.joined_step
        return sequence.generated_before

    def arrive(self, sequence: Sequence, now: float) -> None:
        """Raises ValueError for one that could never fit, which would wait for ever."""
        if self.limits.blocks(sequence.prompt_tokens + sequence.output_tokens) > self.kv.total:
            raise ValueError("longer than the KV cache")
        self._arrivals += 1
        sequence.order = self._arrivals
        sequence.arrived_at = now
        self._wait(sequence)

    def abort(self, sequence: Sequence) -> bool:
        """False when it has already ended."""
        if sequence.phase is Phase.DONE:
            return False
        if sequence.phase is Phase.WAITING:
            self.waiting_count -= 1
        else:
            self._leave(sequence)
        sequence.phase = Phase.DONE
        return True

    def begin_step(self, now: float) -> float | None:
        """When the step ends, or None when there is nothing to do."""
        preempted_before = self.preemptions_total
        step = self._step = _Step(started_at=now)
        self._grow_decodes()
        self._continue_prefills()
        if self.preemptions_total == preempted_before:
            self._admit(now)
        if not self.decoding and not step.chunks:
            self._step = None
            return None
        step.ends_at = now + self._duration_s(step)
        return step.ends_at

    def end_step(self) -> StepResult:
        step = self._step
        if step is None:
            raise RuntimeError("no step has begun")
        self._step = None
        self._steps_ended = self._steps_begun
        decode_tokens = len(self.decoding)
        self._context_tokens += decode_tokens
        finished = self._finish_decodes()
        first_tokens = self._end_chunks(step, finished)
        for sequence in finished:
            sequence.ended_at = step.ends_at
        return StepResult(step.started_at, step.ends_at, first_tokens, finished, decode_tokens, step.prefill_tokens)

    def _duration_s(self, step: _Step) -> float:
        pairs = sum(chunk * (sequence.computed_tokens + chunk / 2) for sequence, chunk in step.chunks.items())
        return self.cost.step_s(
            tokens=len(self.decoding) + step.prefill_tokens,
            sequences=len(self.decoding) + len(step.chunks),
            context_tokens=self._context_tokens,
            attention_pairs=pairs,
        )

    # blocks and preemption

    def _grow_decodes(self) -> None:
        remainder = self._steps_begun % self.limits.block_size_tokens
        while not self.kv.take(self._growing_by_remainder[remainder]):
            self._preempt()
        self._steps_begun += 1

    def _preempt(self) -> Sequence:
        """The least urgent, latest sequence gives up its blocks; it is computed again later."""
        victim = max([*self.prefilling, *self.decoding], key=lambda sequence: (sequence.priority, sequence.order))
        self._leave(victim)
        victim.prefill_tokens = victim.prompt_tokens + victim.generated_before
        victim.preemptions += 1
        self.preemptions_total += 1
        self._wait(victim)
        return victim

    def _wait(self, sequence: Sequence) -> None:
        sequence.phase = Phase.WAITING
        self.waiting_count += 1
        heapq.heappush(self._waiting, (sequence.priority, sequence.order, sequence))

    def _leave(self, sequence: Sequence) -> None:
        """Takes a running sequence out of the batch and frees its blocks; what is computed stays cached."""
        if sequence.phase is Phase.DECODING:
            self._leave_decoding(sequence)
        else:
            del self.prefilling[sequence]
            if self._step:
                self._step.drop(sequence)
        full_blocks = sequence.computed_tokens // self.limits.block_size_tokens
        self._publish(sequence, full_blocks)
        private = self.limits.blocks(sequence.scheduled_tokens) - len(sequence.shared_blocks)
        self.kv.release(private, sequence.shared_blocks)
        sequence.shared_blocks = []
        sequence.computed_tokens = sequence.scheduled_tokens = 0

    def _leave_decoding(self, sequence: Sequence) -> None:
        del self.decoding[sequence]
        self._growing_by_remainder[self._remainder(sequence)] -= 1
        joined_tokens = sequence.prefill_tokens
        sequence.generated_before = sequence.generated_before + self._steps_ended - sequence.joined_step
        sequence.computed_tokens = joined_tokens + self._steps_ended - sequence.joined_step
        sequence.scheduled_tokens = joined_tokens + self._steps_begun - sequence.joined_step
        self._context_tokens -= sequence.computed_tokens

    def _remainder(self, sequence: Sequence) -> int:
        """Which steps, modulo the block size, begin a new block of this decoding sequence."""
        return (sequence.joined_step - sequence.prefill_tokens) % self.limits.block_size_tokens

    def _publish(self, sequence: Sequence, full_blocks: int) -> None:
        known = len(sequence.shared_blocks)
        sequence.shared_blocks += self.kv.publish(sequence.block_hashes[known:full_blocks])

    # prefill

    def _budget(self) -> int:
        prefill_tokens = self._step.prefill_tokens if self._step else 0
        return self.limits.max_batched_tokens - len(self.decoding) - prefill_tokens

    def _continue_prefills(self) -> None:
        for sequence in list(self.prefilling):
            chunk = min(self._budget(), sequence.prefill_tokens - sequence.computed_tokens)
            if chunk > 0 and sequence.phase is Phase.PREFILLING and self._reserve(sequence, chunk):
                self._schedule(sequence, chunk)

    def _reserve(self, sequence: Sequence, chunk: int) -> bool:
        blocks = self.limits.blocks(sequence.computed_tokens + chunk) - self.limits.blocks(sequence.computed_tokens)
        while not self.kv.take(blocks):
            if self._preempt() is sequence:
                return False
        return True

    def _schedule(self, sequence: Sequence, chunk: int) -> None:
        sequence.scheduled_tokens = sequence.computed_tokens + chunk
        if self._step:
            self._step.add(sequence, chunk)

    def _admit(self, now: float) -> None:
        while self._waiting and self.running_count < self.limits.max_sequences:
            sequence = self._waiting[0][2]
            if sequence.phase is Phase.WAITING and not self._admit_one(sequence, now):
                return
            heapq.heappop(self._waiting)

    def _admit_one(self, sequence: Sequence, now: float) -> bool:
        size = self.limits.block_size_tokens
        hits = self.kv.count_cached(sequence.block_hashes, (sequence.prefill_tokens - 1) // size)
        chunk = min(self._budget(), sequence.prefill_tokens - hits * size)
        fresh = self.limits.blocks(hits * size + chunk) - hits
        if chunk <= 0 or not self.kv.admit(sequence.block_hashes[:hits], fresh):
            return False
        self._start(sequence, hits, now)
        self._schedule(sequence, chunk)
        return True

    def _start(self, sequence: Sequence, hits: int, now: float) -> None:
        self.waiting_count -= 1
        self.prefilling[sequence] = None
        sequence.phase = Phase.PREFILLING
        sequence.computed_tokens = hits * self.limits.block_size_tokens
        sequence.shared_blocks = list(sequence.block_hashes[:hits])
        if sequence.admitted_at is None:
            sequence.admitted_at = now
            sequence.cached_tokens = sequence.computed_tokens
            self.prefix_queried_tokens_total += sequence.prompt_tokens
            self.prefix_hit_tokens_total += sequence.cached_tokens

    # the end of a step

    def _finish_decodes(self) -> list[Sequence]:
        ending = self._finishing_by_step.pop(self._steps_ended, ())
        finished = [
            sequence
            for sequence in ending
            if sequence.phase is Phase.DECODING and sequence.finish_step == self._steps_ended
        ]
        for sequence in finished:
            self._end(sequence)
        return finished

    def _end_chunks(self, step: _Step, finished: list[Sequence]) -> list[Sequence]:
        """Prefills that completed; each gives a token at once."""
        first_tokens = []
        for sequence, chunk in step.chunks.items():
            sequence.computed_tokens += chunk
            self._publish(sequence, sequence.computed_tokens // self.limits.block_size_tokens)
            if sequence.computed_tokens == sequence.prefill_tokens:
                first_tokens.append(sequence)
                self._join(sequence, step.ends_at)
                if sequence.phase is Phase.DONE:
                    finished.append(sequence)
        return first_tokens

    def _join(self, sequence: Sequence, now: float) -> None:
        if sequence.first_token_at is None:
            sequence.first_token_at = now
        sequence.generated_before += min(1, sequence.output_tokens)
        remaining = sequence.output_tokens - sequence.generated_before
        if remaining == 0:
            self._end(sequence)
            return
        del self.prefilling[sequence]
        self.decoding[sequence] = None
        sequence.phase = Phase.DECODING
        sequence.joined_step = self._steps_ended
        sequence.finish_step = self._steps_ended + remaining
        self._context_tokens += sequence.prefill_tokens
        self._growing_by_remainder[self._remainder(sequence)] += 1
        self._finishing_by_step[sequence.finish_step].append(sequence)

    def _end(self, sequence: Sequence) -> None:
        self._leave(sequence)
        sequence.phase = Phase.DONE
