"""W2: agent and tool traffic, recorded sessions replayed with their gaps, on four H100."""

from itertools import accumulate, count
from pathlib import Path
from random import Random

from workers.scheduling.latency.step_cost import StepCost
from workers.simulator.engine import EngineLimits
from workers.simulator.job import Job
from workers.simulator.workloads.recorded import Recorded, read_recorded
from workers.simulator.workloads.workload import Workload, poisson, prefill_s

ENGINE = "llama3-8b/h100/tp1"
LIMITS = EngineLimits()
TTFT_S, TTFT_PREFILLS, TPOT_S = 2.0, 2.0, 0.15
MAX_GAP_S = 3.0


def build(folder: Path, cost: StepCost, load: float, rate_per_s: float, duration_s: float, rng: Random) -> Workload:
    """Sessions start as a Poisson process that began long ago; their calls come at their recorded distances."""
    recorded = read_recorded(folder)
    spans = [_offsets(session)[-1] for session in recorded]
    calls_per_session = sum(len(session.calls) for session in recorded) / len(recorded)
    begun_s = max(spans)
    starts = poisson(rate_per_s / calls_per_session, begun_s + duration_s, rng)
    numbers = count()
    jobs: list[Job] = []
    for number, start in enumerate(starts):
        jobs += _calls(number, start - begun_s, duration_s, rng.choice(recorded), numbers, cost)
    jobs.sort(key=lambda job: job.arrived_at)
    return Workload(name="W2", load=load, engine=ENGINE, limits=LIMITS, jobs=jobs)


def _offsets(recorded: Recorded) -> list[float]:
    """When each call comes, from the start of the session; long pauses of people are cut."""
    gaps = [min(MAX_GAP_S, recorded.gap_s(index) + recorded.calls[index].api) for index in range(len(recorded.calls))]
    return list(accumulate(gaps))


def _calls(
    number: int, start: float, duration_s: float, recorded: Recorded, numbers: "count[int]", cost: StepCost
) -> list[Job]:
    jobs = []
    for index, offset in enumerate(_offsets(recorded)):
        if 0 <= start + offset < duration_s:
            job = recorded.job(next(numbers), index, number)
            job.arrived_at = start + offset
            job.ttft_slo_s = TTFT_S + TTFT_PREFILLS * prefill_s(cost, LIMITS, job.prompt_tokens)
            job.tpot_slo_s = TPOT_S
            jobs.append(job)
    return jobs
