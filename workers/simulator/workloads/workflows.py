"""W5: workflows of dependent calls with deadlines, cut from recorded sessions, on four H100."""

from itertools import count

from workers.simulator.engine_limits import EngineLimits
from workers.simulator.workloads.recorded import Recorded, read_recorded
from workers.simulator.workloads.workload import FollowUp, Session, Setting, Workload, decode_s, poisson, prefill_s

ENGINE = "llama3-8b/h100/tp1"
LIMITS = EngineLimits()
CALLS = (8, 20)
MAX_TOOL_S = 30.0
DEADLINE_FACTOR, DEADLINE_S = 4.0, 1.0


def build(setting: Setting) -> Workload:
    """`rate_per_s` is that of calls."""
    recorded = [session for session in read_recorded(setting.folder, setting.begin) if len(session.calls) >= CALLS[0]]
    starts = poisson(setting.rate_per_s / (sum(CALLS) / 2), setting.duration_s, setting.rng)
    numbers = count()
    sessions = [
        _workflow(number, at, setting.rng.choice(recorded), numbers, setting) for number, at in enumerate(starts)
    ]
    return Workload(name="W5", load=setting.load, engine=ENGINE, limits=LIMITS, sessions=sessions)


def _workflow(number: int, at: float, recorded: Recorded, numbers: "count[int]", setting: Setting) -> Session:
    rng, cost = setting.rng, setting.cost
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
