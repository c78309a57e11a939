"""How long a live run takes, how far it is, and what of one that was stopped can be judged."""

import asyncio
import sys

from msgspec import structs

from workers.simulator.job import Job
from workers.simulator.workloads.workload import Session, Workload

TELL_EVERY_S = 10.0
WITHIN_FACTOR, WITHIN_MORE_S = 1.5, 30.0


def within_s(expected_s: float) -> float:
    """When a run is stopped that nobody set a limit for: one that hangs, or is far slower than the simulator says."""
    return WITHIN_FACTOR * expected_s + WITHIN_MORE_S


class Course:
    """Counts what has ended. Modelled and wall seconds differ by `time_scale`; only those of the wall are told."""

    def __init__(self, total: int, expected_s: float) -> None:
        self._total = total
        self._expected_s = expected_s
        self._ended = 0

    def ended(self, count: int = 1) -> None:
        """Answered, refused, or never asked because a call before it was lost."""
        self._ended += count

    def told(self, passed_s: float) -> str:
        return f"{passed_s:.0f} of about {self._expected_s:.0f} s: {self._ended} of {self._total} requests have ended"

    async def tell(self) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            print(self.told(loop.time() - began_at), file=sys.stderr, flush=True)


def judged(workload: Workload, plan: Workload, stopped_at: float) -> Workload:
    """Of what is known by then whether it was in time: whose limit has passed by the plan, whatever became of it.

    To take what has ended in its place would leave out those that take long, which are those that are late.
    """
    return structs.replace(
        workload,
        jobs=[job for job, planned in zip(workload.jobs, plan.jobs, strict=True) if _limit_at(planned) <= stopped_at],
        sessions=[session for session in workload.sessions if _ends_by(session) <= stopped_at],
    )


def _limit_at(job: Job) -> float:
    return job.arrived_at + _limit_s(job)


def _limit_s(job: Job) -> float:
    return job.ttft_slo_s + job.tpot_slo_s * job.output_tokens


def _ends_by(session: Session) -> float:
    """Without a deadline each call has its own limit, and only the last of them says when all is over."""
    if session.budget_s is not None:
        return session.starts_at + session.budget_s
    return session.starts_at + sum(call.gap_s + _limit_s(call.job) for call in session.calls)
