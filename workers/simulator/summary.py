"""What one policy did with a trace, in the words of those who pay for the machines."""

from collections.abc import Callable

from msgspec import Struct

from workers.simulator.job import Job
from workers.simulator.report import Scores, good_jobs, is_in_time, quantile, score
from workers.simulator.workloads.workload import Workload

CLASS_NAMES = ("highest", "middle", "lowest")
MAX_TENANTS = 50


class Attainment(Struct, frozen=True):
    """`share` of `requests` were within their SLO."""

    name: str
    requests: int
    share: float


class Quantiles(Struct, frozen=True):
    p50: float
    p90: float
    p99: float


class Summary(Struct, frozen=True, kw_only=True):
    """`usd_per_workflow` is None without workflows; `replicas_needed` when it was not asked for, or not found."""

    policy: str
    requests: int
    answered: int
    scores: Scores
    ttft_s: Quantiles
    tpot_ms: Quantiles
    by_class: list[Attainment]
    by_tenant: list[Attainment]
    usd_per_request: float | None
    usd_per_workflow: float | None
    simulated_s: float
    replicas_needed: int | None = None


def summarise(
    policy: str, workload: Workload, jobs: list[Job], *, ended_at: float, fleet: int, usd_per_hour: float
) -> Summary:
    """`fleet` counts replicas, `usd_per_hour` is for all of them."""
    asked = [job for job in jobs if job.is_refused or job.endpoint]
    good = good_jobs(workload, asked)
    usd = usd_per_hour * ended_at / 3600
    in_time = sum(good.values())
    workflows = [session for session in workload.sessions if session.budget_s is not None]
    workflows_in_time = sum(map(is_in_time, workflows))
    return Summary(
        policy=policy,
        requests=len(asked),
        answered=sum(job.finished_at is not None for job in asked),
        scores=score(workload, jobs, ended_at, fleet),
        ttft_s=_quantiles([job.first_token_at - job.arrived_at for job in asked if job.first_token_at is not None]),
        tpot_ms=_quantiles([job.tpot_s() * 1000 for job in asked if job.finished_at is not None]),
        by_class=sorted(_attained(asked, good, _class_of), key=lambda attained: CLASS_NAMES.index(attained.name)),
        by_tenant=_attained(asked, good, lambda job: job.tenant)[:MAX_TENANTS],
        usd_per_request=usd / in_time if in_time else None,
        usd_per_workflow=usd / workflows_in_time if workflows_in_time else None,
        simulated_s=ended_at,
    )


def _class_of(job: Job) -> str:
    return CLASS_NAMES[min(job.rank, len(CLASS_NAMES) - 1)]


def _quantiles(values: list[float]) -> Quantiles:
    values.sort()
    return Quantiles(quantile(values, 0.5), quantile(values, 0.9), quantile(values, 0.99))


def _attained(asked: list[Job], good: dict[int, bool], name_of: Callable[[Job], str]) -> list[Attainment]:
    """Most requests first."""
    counts: dict[str, list[int]] = {}
    for job in asked:
        of_name = counts.setdefault(name_of(job), [0, 0])
        of_name[0] += 1
        of_name[1] += good[job.number]
    ranked = sorted(counts.items(), key=lambda item: (-item[1][0], item[0]))
    return [Attainment(name, total, in_slo / total) for name, (total, in_slo) in ranked]
