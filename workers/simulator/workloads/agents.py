"""W2: agent and tool traffic, recorded sessions replayed with their gaps, on four H100."""

from itertools import count
from pathlib import Path
from random import Random

from workers.scheduling.latency.step_cost import StepCost
from workers.simulator.engine import EngineLimits
from workers.simulator.workloads.recorded import Recorded, read_recorded
from workers.simulator.workloads.workload import FollowUp, Session, Workload, poisson, prefill_s

ENGINE = "llama3-8b/h100/tp1"
LIMITS = EngineLimits()
TTFT_S, TTFT_PREFILLS, TPOT_S = 2.0, 2.0, 0.15
MAX_GAP_S = 60.0


def build(folder: Path, cost: StepCost, load: float, rate_per_s: float, duration_s: float, rng: Random) -> Workload:
    """Sessions start as a Poisson process, each somewhere in its course, and stop with the run."""
    recorded = read_recorded(folder)
    numbers = count()
    starts = poisson(rate_per_s / _calls_expected(recorded, duration_s), duration_s, rng)
    sessions = [
        _session(number, at, duration_s, rng.choice(recorded), numbers, cost) for number, at in enumerate(starts)
    ]
    return Workload(name="W2", load=load, engine=ENGINE, limits=LIMITS, sessions=sessions)


def _calls_expected(recorded: list[Recorded], duration_s: float) -> float:
    """How many calls a session that starts at a random moment of the run makes within it."""
    total = 0.0
    for session in recorded:
        at = 0.0
        for index in range(len(session.calls)):
            at += min(MAX_GAP_S, session.gap_s(index)) + session.calls[index].api / 2
            if at >= duration_s:
                break
            total += (duration_s - at) / duration_s
    return total / len(recorded)


def _session(
    number: int, at: float, duration_s: float, recorded: Recorded, numbers: "count[int]", cost: StepCost
) -> Session:
    calls: list[FollowUp] = []
    elapsed = at
    for index in range(len(recorded.calls)):
        gap_s = min(MAX_GAP_S, recorded.gap_s(index))
        elapsed += gap_s
        if elapsed > duration_s:
            break
        job = recorded.job(next(numbers), index, number)
        job.session = number
        job.ttft_slo_s = TTFT_S + TTFT_PREFILLS * prefill_s(cost, LIMITS, job.prompt_tokens)
        job.tpot_slo_s = TPOT_S
        calls.append(FollowUp(job, gap_s))
    return Session(number, at, calls)
