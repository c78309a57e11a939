"""Requests with times of their own: a trace as it was recorded, or usage records of a past day."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from msgspec import Struct

from workers.scheduling.ranks import by_rank
from workers.scheduling.tuning import CLASS_WEIGHTS
from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job
from workers.simulator.kv_cache import BLOCK_TOKENS
from workers.simulator.traces import MOONCAKE_BLOCK_TOKENS, TraceRequest
from workers.simulator.workloads.shared_prefixes import UNIT_TOKENS, SharedPrefixes
from workers.simulator.workloads.workload import Workload


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """What a usage record tells of a request. `group` is what the requests of one conversation have in common.

    There is no prompt: what prompts have in common is guessed from what was cached (`shared_prefixes.py`).
    """

    at_s: float
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    tenant: str = "t"
    group: str = ""
    rank: int = 0


Timed = TypeVar("Timed", bound=TraceRequest | RecordedRequest)


class Terms(Protocol):
    """Of an experiment."""

    @property
    def engine(self) -> str: ...
    @property
    def speed(self) -> float: ...
    @property
    def duration_s(self) -> float | None: ...
    @property
    def ttft_slo_s(self) -> float: ...
    @property
    def tpot_slo_s(self) -> float: ...


def of_trace(trace: Iterable[TraceRequest], terms: Terms) -> Workload:
    jobs = []
    for number, (at_s, item) in enumerate(_timed(trace, terms)):
        job = Job(number, at_s, max(1, item.prompt_tokens), item.output_tokens)
        job.units = job.blocks = item.hashes[: item.prompt_tokens // MOONCAKE_BLOCK_TOKENS]
        job.block_tokens = MOONCAKE_BLOCK_TOKENS if item.hashes else 0
        jobs.append(job)
    return _workload(jobs, terms, MOONCAKE_BLOCK_TOKENS if any(job.units for job in jobs) else BLOCK_TOKENS)


def of_requests(requests: Iterable[RecordedRequest], terms: Terms) -> Workload:
    jobs, prefixes = [], SharedPrefixes()
    for number, (at_s, item) in enumerate(_timed(requests, terms)):
        job = Job(number, at_s, max(1, item.prompt_tokens), max(1, item.output_tokens))
        job.units = job.blocks = prefixes.units_of(item.tenant, item.group, item.prompt_tokens, item.cached_tokens)
        job.block_tokens = UNIT_TOKENS
        job.tenant = item.tenant
        job.rank = item.rank
        job.weight = by_rank(CLASS_WEIGHTS, item.rank)
        jobs.append(job)
    return _workload(jobs, terms, UNIT_TOKENS)


def _timed(items: Iterable[Timed], terms: Terms) -> Iterator[tuple[float, Timed]]:
    """A recording begins with its first request: the empty hours of a day before it are not played."""
    end_s = float("inf") if terms.duration_s is None else terms.duration_s
    begin_s: float | None = None
    for item in items:
        begin_s = item.at_s if begin_s is None else begin_s
        at_s = (item.at_s - begin_s) / terms.speed
        if at_s >= end_s:
            return
        yield at_s, item


def _workload(jobs: list[Job], terms: Terms, unit_tokens: int) -> Workload:
    for job in jobs:
        job.ttft_slo_s, job.tpot_slo_s = terms.ttft_slo_s, terms.tpot_slo_s
    return Workload(
        name="recorded", load=terms.speed, engine=terms.engine, limits=EngineLimits(unit_tokens=unit_tokens), jobs=jobs
    )
