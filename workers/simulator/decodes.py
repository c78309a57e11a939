"""The sequences of an engine that gain a token each step."""

from workers.simulator.finishing import Finishing
from workers.simulator.job import Job
from workers.simulator.kv_cache import BLOCK_TOKENS


class Decodes:
    """`step` counts the steps of the engine, `context_tokens` what all of them have in the KV cache."""

    __slots__ = ("_finishing", "_growing", "context_tokens", "jobs", "step")

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.step = 0
        self.context_tokens = 0
        self._growing = [0] * BLOCK_TOKENS
        self._finishing = Finishing()

    def join(self, job: Job, remaining_tokens: int) -> None:
        job.joined_step = self.step
        job.finish_step = self.step + remaining_tokens
        self.jobs[job.number] = job
        self._finishing.add(job)
        self.context_tokens += job.prefill_tokens
        self._growing[(self.step - job.prefill_tokens) % BLOCK_TOKENS] += 1

    def pass_steps(self, steps: int) -> None:
        self.step += steps
        self.context_tokens += steps * len(self.jobs)

    def take_finished(self) -> list[Job]:
        """Those whose last token the last step made; each is still to `leave`."""
        return self._finishing.pop(self.step)

    def stop(self, job: Job) -> int:
        """Before its end; its tokens in the KV cache."""
        self._finishing.remove(job)
        return self.leave(job)

    def leave(self, job: Job) -> int:
        """Its tokens in the KV cache."""
        del self.jobs[job.number]
        done = self.step - job.joined_step
        tokens = job.prefill_tokens + done
        job.generated += done
        self.context_tokens -= tokens
        self._growing[(job.joined_step - job.prefill_tokens) % BLOCK_TOKENS] -= 1
        return tokens

    def latest(self) -> Job:
        return self.jobs[next(reversed(self.jobs))]

    def answered_tokens(self, job: Job, steps: int) -> int:
        """When so many more steps have ended."""
        return job.generated + (self.step + steps - job.joined_step if job.number in self.jobs else 0)

    def steps_left(self) -> int:
        """Until one of them ends; there is one."""
        return self._finishing.next_step() - self.step

    def blocks_grown(self, first: int, last: int) -> int:
        """Blocks that steps `first` to `last` (exclusive) from now need."""
        growing, steps = self._growing, last - first
        blocks = steps // BLOCK_TOKENS * len(self.jobs)
        start = self.step + first
        for step in range(start, start + steps % BLOCK_TOKENS):
            blocks += growing[step % BLOCK_TOKENS]
        return blocks
