"""A model of one vLLM-like engine: continuous batching, chunked prefill, paged KV, in steps.

Every decoding sequence gains one token a step, so a sequence's end is known when it joins and nothing is done per
token. Steps in which only known decodes run are taken in one leap; a dispatch in the middle of one cuts it short at
the end of the step that is running then, which changes nothing: the steps would have been the same. So are those that
one long prompt fills: nothing else can join them.
"""

from bisect import bisect_left
from collections import deque

from workers.scheduling.latency.step_cost import StepCost
from workers.scheduling.latency.step_times import StepTimes
from workers.simulator.decodes import Decodes
from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job
from workers.simulator.kv_cache import BLOCK_TOKENS, KVCache
from workers.simulator.leap import Leap


class Engine:
    """`begin` says when the leap ends; `end` is called then. `arrive` may come at any time between."""

    def __init__(self, name: str, cost: StepCost, limits: EngineLimits) -> None:
        self.name = name
        self.cost = cost
        self.limits = limits
        self.kv = KVCache(cost.kv_capacity_tokens // BLOCK_TOKENS, limits.unit_tokens // BLOCK_TOKENS)
        self.waiting: deque[Job] = deque()
        self.prefilling: list[Job] = []
        self.decodes = Decodes()
        self.ends_at: float | None = None
        self.leaps = 0
        self.preemptions = 0
        self._watermark_blocks = int(self.kv.total * limits.watermark)
        self._unit_tokens = limits.unit_tokens
        self._max_batched_tokens = limits.max_batched_tokens
        self._max_sequences = limits.max_sequences
        self._times = StepTimes(cost)
        self._leap = Leap()
        self._chunks: list[tuple[Job, int]] = []
        self._fill_ends: list[float] = []
        self._cancelled: list[Job] = []

    @property
    def running(self) -> int:
        return len(self.decodes.jobs) + len(self.prefilling)

    def arrive(self, job: Job, now: float) -> bool:
        """True when the leap's end was moved to the end of the step running now."""
        self._enqueue(job)
        if self._leap.steps <= 1 or self._fill_ends or len(self.waiting) > 1:
            return False
        return self._cut_leap(now)

    def _enqueue(self, job: Job) -> None:
        place = len(self.waiting)
        if self.limits.is_by_priority:
            while place and self.waiting[place - 1].rank > job.rank:
                place -= 1
        self.waiting.insert(place, job)

    def cancel(self, job: Job, now: float) -> bool:
        """It takes no place from the end of the step that runs now; True when the leap's end was moved there."""
        job.is_cancelled = True
        if job in self.waiting:
            self.waiting.remove(job)
        else:
            self._cancelled.append(job)
        if self._leap.steps:
            return self._cut_leap(now)
        self._drop_cancelled()
        return False

    def answered_tokens(self, job: Job) -> int:
        """When a leap has just been cut at the step that runs now, or none has begun."""
        return self.decodes.answered_tokens(job, max(0, self._leap.steps - 1))

    def begin(self, now: float) -> float | None:
        """When the leap ends, or None when there is nothing to do."""
        self._grow_decodes()
        prefill_tokens, pairs = self._schedule_prefills()
        if not self.decodes.jobs and not self._chunks:
            self.ends_at = None
            return None
        self.leaps += 1
        step_s = self._step_s(prefill_tokens, len(self._chunks), pairs)
        self._leap.begin(now, step_s, self._times.ms_per_ctx_token * len(self.decodes.jobs) / 1000)
        if self._chunks:
            self._leap.steps = 1
            self.ends_at = self._fill(now + step_s)
        else:
            self._leap.steps = self._safe_steps()
            self.ends_at = self._leap.ends_at()
        return self.ends_at

    def end(self) -> tuple[list[Job], list[Job]]:
        """Jobs that got their first token, and jobs that ended, at `ends_at`."""
        steps, self._leap.steps = self._leap.steps, 0
        self._fill_ends = []
        now = self.ends_at or 0.0
        if steps > 1:
            self.kv.take(self.decodes.blocks_grown(1, steps))
        self.decodes.pass_steps(steps)
        if self._cancelled:
            self._drop_cancelled()
        finished = self.decodes.take_finished()
        for job in finished:
            self._free(job, self.decodes.leave(job))
            job.finished_at = now
        return self._end_chunks(now, finished), finished

    def kv_usage(self, at: float) -> float:
        """At a time since the last change."""
        used = self.kv.used
        if self._leap.steps > 1:
            used += self.decodes.blocks_grown(1, min(self._steps_begun(at), self._leap.steps))
        return used / self.kv.total

    # steps

    def _step_s(self, prefill_tokens: int, chunks: int, pairs: float) -> float:
        decodes = len(self.decodes.jobs)
        return self._times.step_s(decodes + prefill_tokens, decodes + chunks, self.decodes.context_tokens, pairs)

    def _fill(self, ends_at: float) -> float:
        """Steps that the prompt of the one running now fills alone, before its last and before a sequence ends.

        What they need of the KV cache is there; it is taken when they end. Returns when the last of them ends.
        """
        job, budget = self._chunks[0]
        decodes = len(self.decodes.jobs)
        if budget < self._max_batched_tokens - decodes or len(self._chunks) > 1:
            return ends_at
        steps = self._full_steps(job, budget)
        if steps < 2 or not self.kv.has_room(self.decodes.blocks_grown(1, steps)):  # noqa: PLR2004
            return ends_at
        context = self.decodes.context_tokens
        self._fill_ends = [ends_at]
        for step in range(1, steps):
            pairs = budget * (job.computed + step * budget + budget / 2)
            ends_at += self._times.step_s(decodes + budget, decodes + 1, context + step * decodes, pairs)
            self._fill_ends.append(ends_at)
        self._leap.steps = steps
        self._chunks = [(job, steps * budget)]
        return ends_at

    def _full_steps(self, job: Job, budget: int) -> int:
        steps = (job.prefill_tokens - job.computed - 1) // budget
        return min(steps, self.decodes.steps_left()) if self.decodes.jobs else steps

    def _safe_steps(self) -> int:
        """Steps until the next sequence ends, fewer when the KV cache might run out before."""
        steps = self.decodes.steps_left()
        if steps > 1:
            room = self.kv.total - self.kv.used
            steps = min(steps, max(1, (room // len(self.decodes.jobs) - 1) * BLOCK_TOKENS))
        return steps

    def _cut_leap(self, now: float) -> bool:
        steps = self._steps_begun(now)
        if steps >= self._leap.steps:
            return False
        if self._fill_ends:
            job, tokens = self._chunks[0]
            self._chunks = [(job, tokens // self._leap.steps * steps)]
            del self._fill_ends[steps:]
        self._leap.steps = steps
        self.ends_at = self._fill_ends[-1] if self._fill_ends else self._leap.ends_at()
        return True

    def _steps_begun(self, now: float) -> int:
        return 1 + bisect_left(self._fill_ends, now) if self._fill_ends else self._leap.steps_begun(now)

    # KV blocks of decodes

    def _grow_decodes(self) -> None:
        while self.decodes.jobs and not self.kv.take(self.decodes.blocks_grown(0, 1)):
            self._preempt()

    def _preempt(self) -> None:
        """The latest sequence gives up its blocks; prompt and answer so far are computed again later."""
        if self.prefilling:
            job = self.prefilling.pop()
            self._free(job, job.prefill_tokens)
        else:
            job = self.decodes.latest()
            self._free(job, self.decodes.stop(job))
        self.preemptions += 1
        job.prefill_tokens = job.prompt_tokens + job.generated
        job.computed = 0
        self.waiting.appendleft(job)

    def _drop_cancelled(self) -> None:
        """What of its prompt was read in the last step was computed all the same."""
        for job in self._cancelled:
            if job.number in self.decodes.jobs:
                self._free(job, self.decodes.stop(job))
            else:
                self.prefilling.remove(job)
                self._free(job, job.prefill_tokens)
                job.computed += sum(tokens for other, tokens in self._chunks if other is job)
        self._chunks = [chunk for chunk in self._chunks if not chunk[0].is_cancelled]
        self._cancelled = []

    def _free(self, job: Job, tokens: int) -> None:
        run = job.run
        covered = 0
        if run is not None:
            self.kv.unpin(run)
            covered = job.hit_units
            job.run = None
        self.kv.private -= -(-tokens // BLOCK_TOKENS) - covered * self.kv.unit_blocks

    # prefill

    def _schedule_prefills(self) -> tuple[int, float]:
        budget = self._max_batched_tokens - len(self.decodes.jobs)
        total, pairs = budget, 0.0
        self._chunks = chunks = []
        for job in self.prefilling:
            if budget <= 0:
                break
            chunk = min(budget, job.prefill_tokens - job.computed)
            budget -= chunk
            pairs += chunk * (job.computed + chunk / 2)
            chunks.append((job, chunk))
        while self.waiting and budget > 0 and self._admit(self.waiting[0]):
            job = self.waiting.popleft()
            self.prefilling.append(job)
            chunk = min(budget, job.prefill_tokens - job.computed)
            budget -= chunk
            pairs += chunk * (job.computed + chunk / 2)
            chunks.append((job, chunk))
        return total - budget, pairs

    def _admit(self, job: Job) -> bool:
        if len(self.decodes.jobs) + len(self.prefilling) >= self._max_sequences:
            return False
        kv = self.kv
        hits = 0
        if job.units:
            usable = (job.prompt_tokens - 1) // self._unit_tokens
            run, hits = kv.match(job.units, min(len(job.units), usable))
            kv.pin(run)
            job.run, job.hit_units = run, hits
        blocks = -(-job.prefill_tokens // BLOCK_TOKENS) - hits * kv.unit_blocks
        has_room = kv.total - kv.used - blocks >= self._watermark_blocks or not self.running
        if not has_room or not kv.take(blocks):
            if job.run is not None:
                kv.unpin(job.run)
                job.run = None
            return False
        job.computed = hits * self._unit_tokens
        if not job.generated:
            job.hit_tokens = job.computed
        return True

    def _end_chunks(self, now: float, finished: list[Job]) -> list[Job]:
        first_tokens = []
        for job, chunk in self._chunks:
            job.computed += chunk
            if job.computed >= job.prefill_tokens:
                self.prefilling.remove(job)
                self._join(job, now, finished)
                if job.first_token_at is None:
                    job.first_token_at = now
                    first_tokens.append(job)
        self._chunks = []
        return first_tokens

    def _join(self, job: Job, now: float, finished: list[Job]) -> None:
        if job.run is not None:
            job.run = self.kv.publish(job.run, job.units, job.hit_units)
            job.hit_units = len(job.units)
        job.generated += 1
        remaining = job.output_tokens - job.generated
        if remaining <= 0:
            self._free(job, job.prefill_tokens)
            job.finished_at = now
            finished.append(job)
            return
        self.decodes.join(job, remaining)
