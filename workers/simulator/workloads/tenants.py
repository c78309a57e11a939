"""W3: three tenants of three classes, one of which floods (Azure conversation and code), on four A100."""

from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job
from workers.simulator.traces import TraceRequest, later, read_lengths
from workers.simulator.workloads.workload import Setting, Workload

ENGINE = "llama3-8b/a100/tp1"
LIMITS = EngineLimits(max_batched_tokens=1024)
FLOOD = 10.0
GOLD_SHARE = 0.4
CLASSES = {"gold": (0, 4.0, 0.5, 0.08), "standard": (1, 2.0, 2.0, 0.12), "batch": (2, 1.0, 30.0, 0.3)}


def build(setting: Setting) -> Workload:
    """`rate_per_s` is that of conversation and code together, before the flood."""
    chat = later(read_lengths(setting.folder / "azure2023_conv.csv.gz"), setting.begin)
    code = later(read_lengths(setting.folder / "azure2023_code.csv.gz"), setting.begin)
    natural_per_s = len(chat) / chat[-1].at_s + len(code) / code[-1].at_s
    speed = setting.rate_per_s / natural_per_s
    jobs = [
        _job(at, item, "gold" if setting.rng.random() < GOLD_SHARE else "standard")
        for at, item in steady(chat, speed, setting.duration_s)
    ]
    jobs += [_job(at, item, "batch") for at, item in _flooding(code, speed, setting.duration_s)]
    jobs.sort(key=lambda job: job.arrived_at)
    for number, job in enumerate(jobs):
        job.number = number
    return Workload(name="W3", load=setting.load, engine=ENGINE, limits=LIMITS, jobs=jobs)


def steady(trace: list[TraceRequest], speed: float, duration_s: float) -> list[tuple[float, TraceRequest]]:
    """The trace `speed` times as fast, over again if it is too short."""
    arrivals: list[tuple[float, TraceRequest]] = []
    index, lap = 0, 0.0
    while True:
        if index == len(trace):
            index, lap = 0, lap + trace[-1].at_s
        at = (lap + trace[index].at_s) / speed
        if at >= duration_s:
            return arrivals
        arrivals.append((at, trace[index]))
        index += 1


def _flooding(trace: list[TraceRequest], speed: float, duration_s: float) -> list[tuple[float, TraceRequest]]:
    """FLOOD times the rate in the middle third: time there runs as much faster."""
    third = duration_s / 3
    arrivals = []
    for virtual, item in steady(trace, speed, third * (2 + FLOOD)):
        if virtual < third:
            at = virtual
        elif virtual < third * (1 + FLOOD):
            at = third + (virtual - third) / FLOOD
        else:
            at = virtual - third * (FLOOD - 1)
        arrivals.append((at, item))
    return arrivals


def _job(at: float, item: TraceRequest, tenant: str) -> Job:
    job = Job(0, at, max(1, item.prompt_tokens), item.output_tokens)
    job.tenant = tenant
    job.rank, job.weight, job.ttft_slo_s, job.tpot_slo_s = CLASSES[tenant]
    return job
