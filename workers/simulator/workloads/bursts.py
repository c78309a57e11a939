"""W4: a burst to several times the rate, then recovery (ServeGen), on four A100."""

import csv
import gzip

from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job
from workers.simulator.traces import TraceRequest, later, read_lengths
from workers.simulator.workloads.tenants import steady
from workers.simulator.workloads.workload import Setting, Workload

ENGINE = "llama3-8b/a100/tp1"
LIMITS = EngineLimits(max_batched_tokens=1024)
CALM_LOAD = 0.6
BURST_S = (120.0, 240.0)
TTFT_S, TPOT_S = 1.0, 0.12


def build(setting: Setting) -> Workload:
    """`load` and `rate_per_s` are those of the burst."""
    path = setting.folder / "servegen_mlarge.csv.gz"
    trace = later(read_lengths(path), setting.begin)
    with gzip.open(path, "rt") as lines:
        clients = [row["client"] for row in csv.DictReader(lines)][-len(trace) :]
    tenant_of = dict(zip(map(id, trace), clients, strict=True))
    calm_per_s = setting.rate_per_s * CALM_LOAD / setting.load
    speed = calm_per_s * trace[-1].at_s / len(trace)
    jobs = []
    for number, (at, item) in enumerate(_bursting(trace, speed, setting.load / CALM_LOAD, setting.duration_s)):
        job = Job(number, at, max(1, item.prompt_tokens), item.output_tokens)
        job.tenant = tenant_of[id(item)]
        job.ttft_slo_s, job.tpot_slo_s = TTFT_S, TPOT_S
        jobs.append(job)
    return Workload(name="W4", load=setting.load, engine=ENGINE, limits=LIMITS, jobs=jobs)


def _bursting(
    trace: list[TraceRequest], speed: float, factor: float, duration_s: float
) -> list[tuple[float, TraceRequest]]:
    start, stop = BURST_S
    extra_s = (stop - start) * (factor - 1)
    arrivals = []
    for virtual, item in steady(trace, speed, duration_s + extra_s):
        if virtual < start:
            at = virtual
        elif virtual < stop + extra_s:
            at = start + (virtual - start) / factor
        else:
            at = virtual - extra_s
        arrivals.append((at, item))
    return arrivals
