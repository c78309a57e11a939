"""W5: workflows of dependent calls with deadlines, cut from recorded sessions, on four H100."""

from itertools import count
from pathlib import Path
from random import Random

from workers.scheduling.latency.step_cost import StepCost
from workers.simulator.engine import EngineLimits
from workers.simulator.workloads.recorded import Recorded, read_recorded
from workers.simulator.workloads.workload import FollowUp, Session, Workload, decode_s, poisson, prefill_s

ENGINE = "llama3-8b/h100/tp1"
LIMITS = EngineLimits()
CALLS = (8, 20)
MAX_TOOL_S = 30.0
DEADLINE_FACTOR, DEADLINE_S = 4.0, 1.0


def build(folder: Path, cost: StepCost, load: float, rate_per_s: float, duration_s: float, rng: Random) -> Workload:
    """`rate_per_s` is that of calls."""
    recorded = [session for session in read_recorded(folder) if len(session.calls) >= CALLS[0]]
    starts = poisson(rate_per_s / (sum(CALLS) / 2), duration_s, rng)
    numbers = count()
    sessions = [_workflow(number, at, rng.choice(recorded), numbers, cost, rng) for number, at in enumerate(starts)]
    return Workload(name="W5", load=load, engine=ENGINE, limits=LIMITS, sessions=sessions)


def _workflow(number: int, at: float, recorded: Recorded, numbers: "count[int]", cost: StepCost, rng: Random) -> Session:
    length = min(rng.randint(*CALLS), len(recorded.calls))
    first = rng.randrange(len(recorded.calls) - length + 1)
    calls, tool_s, model_s = [], 0.0, 0.0
    for index in range(first, first + length):
        job = recorded.job(next(numbers), index, number)
        job.session = number
        gap_s = min(MAX_TOOL_S, recorded.gap_s(index)) if index > first else 0.0
        tool_s += gap_s
        model_s += prefill_s(cost, LIMITS, job.prompt_tokens) + decode_s(cost, job.prompt_tokens, job.output_tokens)
        calls.append(FollowUp(job, gap_s))
    return Session(number, at, calls, tool_s + DEADLINE_FACTOR * model_s + DEADLINE_S)
