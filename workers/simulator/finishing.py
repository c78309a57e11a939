"""Which sequences of an engine end at which step."""

import heapq

from workers.simulator.job import Job


class Finishing:
    """By their `finish_step`. A step may be left without any: its last one gave up its blocks."""

    __slots__ = ("_jobs", "_steps")

    def __init__(self) -> None:
        self._jobs: dict[int, list[Job]] = {}
        self._steps: list[int] = []

    def add(self, job: Job) -> None:
        jobs = self._jobs.get(job.finish_step)
        if jobs is None:
            jobs = self._jobs[job.finish_step] = []
            heapq.heappush(self._steps, job.finish_step)
        jobs.append(job)

    def remove(self, job: Job) -> None:
        jobs = self._jobs[job.finish_step]
        jobs.remove(job)
        if not jobs:
            del self._jobs[job.finish_step]

    def next_step(self) -> int:
        """There is one."""
        steps, jobs = self._steps, self._jobs
        while steps[0] not in jobs:
            heapq.heappop(steps)
        return steps[0]

    def pop(self, step: int) -> list[Job]:
        jobs = self._jobs.pop(step, None)
        return [] if jobs is None else jobs
