"""W2: agent and tool traffic, recorded sessions replayed with their gaps, on four H100."""

from itertools import accumulate, count

from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job
from workers.simulator.workloads.recorded import Recorded, read_recorded
from workers.simulator.workloads.workload import Setting, Workload, poisson, prefill_s

ENGINE = "llama3-8b/h100/tp1"
LIMITS = EngineLimits()
TTFT_S, TTFT_PREFILLS, TPOT_S = 2.0, 2.0, 0.15
MAX_GAP_S = 3.0


def build(setting: Setting) -> Workload:
    """Sessions start as a Poisson process that began long ago; their calls come at their recorded distances."""
    recorded = read_recorded(setting.folder, setting.begin)
    spans = [_offsets(session)[-1] for session in recorded]
    calls_per_session = sum(len(session.calls) for session in recorded) / len(recorded)
    begun_s = max(spans)
    starts = poisson(setting.rate_per_s / calls_per_session, begun_s + setting.duration_s, setting.rng)
    numbers = count()
    jobs: list[Job] = []
    for number, start in enumerate(starts):
        jobs += _calls(number, start - begun_s, setting.rng.choice(recorded), numbers, setting)
    jobs.sort(key=lambda job: job.arrived_at)
    return Workload(name="W2", load=setting.load, engine=ENGINE, limits=LIMITS, jobs=jobs)


def _offsets(recorded: Recorded) -> list[float]:
    """When each call comes, from the start of the session; long pauses of people are cut."""
    gaps = [min(MAX_GAP_S, recorded.gap_s(index) + recorded.calls[index].api) for index in range(len(recorded.calls))]
    return list(accumulate(gaps))


def _calls(number: int, start: float, recorded: Recorded, numbers: "count[int]", setting: Setting) -> list[Job]:
    jobs = []
    for index, offset in enumerate(_offsets(recorded)):
        if 0 <= start + offset < setting.duration_s:
            job = recorded.job(next(numbers), index, number)
            job.arrived_at = start + offset
            job.ttft_slo_s = TTFT_S + TTFT_PREFILLS * prefill_s(setting.cost, LIMITS, job.prompt_tokens)
            job.tpot_slo_s = TPOT_S
            jobs.append(job)
    return jobs
