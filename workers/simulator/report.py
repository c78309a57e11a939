"""Scores of one run."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from workers.simulator.job import Job
from workers.simulator.workloads.workload import Session, Workload

GPU_USD_PER_HOUR = 2.5
"""A round price of one accelerator; it scales the cost column and ranks nothing."""


class Scores(Struct, frozen=True, kw_only=True):
    """Times in seconds or milliseconds as named; shares of 1; `goodput_per_s` counts requests within their SLO.

    `value` is the weighted share of requests within their SLO, or of workflows in time. `wasted` is the share of
    computed tokens (uncached prompt and answer) that went to requests out of their SLO. `jain` is Jain's index of the
    tenants' shares of requests in their SLO.
    """

    value: float
    in_slo: float
    goodput_per_s: float
    ttft_p50_s: float
    ttft_p99_s: float
    tpot_p50_ms: float
    hit_rate: float
    refused: float
    wasted: float
    by_tenant: dict[str, float]
    jain: float
    usd_per_1000_in_time: float


def score(workload: Workload, jobs: list[Job], ended_at: float, fleet: int) -> Scores:
    asked = [job for job in jobs if job.is_refused or job.endpoint]
    good = good_jobs(workload, asked)
    answered = sorted(job.first_token_at - job.arrived_at for job in asked if job.first_token_at is not None)
    paces = sorted(job.tpot_s() * 1000 for job in asked if job.finished_at is not None)
    shares = _shares(asked, good)
    in_time = sum(good.values())
    usd = fleet * GPU_USD_PER_HOUR * ended_at / 3600
    return Scores(
        value=_value(workload, asked, good),
        in_slo=in_time / max(1, len(asked)),
        goodput_per_s=in_time / ended_at,
        ttft_p50_s=quantile(answered, 0.5),
        ttft_p99_s=quantile(answered, 0.99),
        tpot_p50_ms=quantile(paces, 0.5),
        hit_rate=_ratio(asked, lambda job: job.hit_tokens, lambda job: job.prompt_tokens if job.endpoint else 0),
        refused=sum(job.is_refused for job in asked) / max(1, len(asked)),
        wasted=_ratio(asked, lambda job: 0 if good[job.number] else _computed(job), _computed),
        by_tenant=shares,
        jain=jain(shares.values()),
        usd_per_1000_in_time=1000 * usd / in_time if in_time else 0.0,
    )


def quantile(values: list[float], share: float) -> float:
    """Of sorted values; 0 when there are none."""
    return values[int(share * (len(values) - 1))] if values else 0.0


def jain(shares: Iterable[float]) -> float:
    values = list(shares)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def is_in_time(session: Session) -> bool:
    last = session.calls[-1].job
    return last.finished_at is not None and last.finished_at <= session.starts_at + (session.budget_s or 0.0)


def good_jobs(workload: Workload, asked: list[Job]) -> dict[int, bool]:
    if not _is_of_workflows(workload):
        return {job.number: job.meets_slo() for job in asked}
    in_time = {session.number: is_in_time(session) for session in workload.sessions}
    return {job.number: in_time[job.session or 0] for job in asked}


def _is_of_workflows(workload: Workload) -> bool:
    return any(session.budget_s is not None for session in workload.sessions)


def _value(workload: Workload, asked: list[Job], good: dict[int, bool]) -> float:
    if _is_of_workflows(workload):
        return sum(map(is_in_time, workload.sessions)) / len(workload.sessions)
    return _ratio(asked, lambda job: job.weight * good[job.number], lambda job: job.weight)


def _shares(asked: list[Job], good: dict[int, bool]) -> dict[str, float]:
    totals: dict[str, list[int]] = {}
    for job in asked:
        counts = totals.setdefault(job.tenant, [0, 0])
        counts[0] += good[job.number]
        counts[1] += 1
    return {tenant: counts[0] / counts[1] for tenant, counts in sorted(totals.items())}


def _computed(job: Job) -> float:
    if job.is_cancelled and job.first_token_at is None:
        return max(0, job.computed - job.hit_tokens)
    return job.prompt_tokens - job.hit_tokens + job.generated if job.endpoint else 0


def _ratio(jobs: list[Job], part: Callable[[Job], float], whole: Callable[[Job], float]) -> float:
    total = sum(map(whole, jobs))
    return sum(map(part, jobs)) / total if total else 0.0
