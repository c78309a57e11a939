"""W1: chat with shared prefixes (Mooncake conversation) on four H100."""

from collections import Counter
from random import Random

from workers.scheduling.latency.step_cost import StepCost
from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job
from workers.simulator.traces import MOONCAKE_BLOCK_TOKENS, TraceRequest, later, read_prefixes
from workers.simulator.workloads.workload import Setting, Workload, prefill_s

ENGINE = "llama3-8b/h100/tp1"
LIMITS = EngineLimits(unit_tokens=MOONCAKE_BLOCK_TOKENS)
BUCKET_S = 3.0
TTFT_S, TTFT_PREFILLS, TPOT_S = 2.0, 2.0, 0.15


def build(setting: Setting) -> Workload:
    trace = later(read_prefixes(setting.folder / "mooncake_conversation.jsonl.gz"), setting.begin)
    trace = trace[: int(setting.rate_per_s * setting.duration_s)]
    times = _spread(trace, setting.rng)
    speed = setting.rate_per_s * times[-1] / len(trace)
    jobs = [
        _job(number, at / speed, item, setting.cost) for number, (at, item) in enumerate(zip(times, trace, strict=True))
    ]
    return Workload(name="W1", load=setting.load, engine=ENGINE, limits=LIMITS, jobs=jobs)


def _spread(trace: list[TraceRequest], rng: Random) -> list[float]:
    """The source clock ticks in buckets; the requests of one are spread over it uniformly."""
    sizes = Counter(item.at_s for item in trace)
    return [
        at_s + offset
        for at_s, size in sizes.items()
        for offset in sorted(rng.uniform(0, BUCKET_S) for _ in range(size))
    ]


def _job(number: int, at: float, item: TraceRequest, cost: StepCost) -> Job:
    job = Job(number, at, item.prompt_tokens, item.output_tokens)
    job.units = job.blocks = item.hashes[: item.prompt_tokens // MOONCAKE_BLOCK_TOKENS]
    job.block_tokens = MOONCAKE_BLOCK_TOKENS
    job.ttft_slo_s = TTFT_S + TTFT_PREFILLS * prefill_s(cost, LIMITS, item.prompt_tokens)
    job.tpot_slo_s = TPOT_S
    return job
