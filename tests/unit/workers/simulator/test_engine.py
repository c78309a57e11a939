from random import Random

import pytest

from workers.scheduling.latency.step_cost import StepCost
from workers.simulator.engine import Engine
from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job

pytestmark = pytest.mark.unit

COST = StepCost(
    t_fixed_ms=1.0, ms_per_seq=0.01, t_weight_ms=5.0, ms_per_token=0.02, p=2.0, attn_fixed_ms=0.4,
    ms_per_ctx_token=1e-4, ms_per_attn_pair=1e-6, kv_capacity_tokens=20_000,
)  # fmt: skip


class StepByStep(Engine):
    """The same engine without leaps."""

    def _safe_steps(self):
        return 1

    def _full_steps(self, job, budget):
        return 1


def play(engine, jobs):
    """Arrivals at their times, a step or leap after the other in between."""
    arrivals = sorted(jobs, key=lambda job: job.arrived_at)
    now, ends_at = 0.0, None
    while arrivals or ends_at is not None:
        if arrivals and (ends_at is None or arrivals[0].arrived_at < ends_at):
            job = arrivals.pop(0)
            now = job.arrived_at
            if engine.arrive(job, now):
                ends_at = engine.ends_at
        else:
            now = ends_at
            engine.end()
            ends_at = None
        if ends_at is None:
            ends_at = engine.begin(now)
    return [(job.number, round(job.first_token_at, 9), round(job.finished_at, 9)) for job in jobs]


def some_jobs(seed, count=60, mean_gap_s=0.15):
    rng = Random(seed)  # noqa: S311 - seeded
    now, jobs = 0.0, []
    for number in range(count):
        now += rng.expovariate(1 / mean_gap_s)
        job = Job(number, now, rng.randint(1, 4000), rng.randint(1, 300))
        chain = rng.randrange(4)
        job.units = tuple(chain * 10_000 + unit for unit in range(job.prompt_tokens // 16))
        jobs.append(job)
    return jobs


@pytest.mark.parametrize("seed", range(5))
def test_leaps_change_nothing(seed):
    assert play(Engine("e", COST, EngineLimits()), some_jobs(seed)) == play(
        StepByStep("e", COST, EngineLimits()), some_jobs(seed)
    )


def usages(engine, times):
    """Of the KV cache at times, while a long prompt is read beside an answer, and after; when its leaps end."""
    seen, ends, times = [], [], list(times)
    engine.arrive(Job(0, 0.0, 100, 2000), 0.0)
    now = engine.begin(0.0)
    engine.arrive(Job(1, 0.0, 19_000, 5), 0.0)
    while times:
        engine.end()
        ends.append(engine.begin(now))
        while times and times[0] < ends[-1]:
            seen.append(engine.kv_usage(times.pop(0)))
        now = ends[-1]
    return seen, ends


def test_in_the_middle_of_a_leap_an_engine_reports_what_it_would_step_by_step():
    times = [0.1 + number * 0.00417 for number in range(800)]
    leaping, leaps = usages(Engine("e", COST, EngineLimits()), times)
    stepping, steps = usages(StepByStep("e", COST, EngineLimits()), times)
    assert leaping == stepping
    assert len(leaps) * 10 < len(steps)


def test_a_lone_request_takes_what_the_formula_says():
    job = Job(0, 0.0, 3000, 3)
    play(Engine("e", COST, EngineLimits()), [job])
    first = COST.step_s(2048, 1, 0, 2048 * 1024) + COST.step_s(952, 1, 0, 952 * (2048 + 476))
    assert job.first_token_at == pytest.approx(first)
    decode = COST.step_s(1, 1, 3000, 0) + COST.step_s(1, 1, 3001, 0)
    assert job.finished_at - job.first_token_at == pytest.approx(decode)


def test_a_second_turn_is_prefilled_from_its_cache():
    first, second = Job(0, 0.0, 1600, 1), Job(1, 10.0, 1616, 1)
    first.units, second.units = tuple(range(100)), tuple(range(101))
    play(Engine("e", COST, EngineLimits()), [first, second])
    assert second.hit_tokens == 1600
    assert second.first_token_at - 10.0 < 0.2 * first.first_token_at


def test_the_cache_running_out_preempts_and_everything_still_ends():
    jobs = [Job(number, 0.0, 2000, 1500) for number in range(9)]
    engine = Engine("e", COST, EngineLimits())
    play(engine, jobs)
    assert engine.preemptions > 0
    assert all(job.generated == job.output_tokens for job in jobs)
    assert engine.kv.used == 0
    assert engine.decodes.context_tokens == 0


def test_no_more_sequences_run_than_the_engine_allows():
    jobs = [Job(number, 0.0, 10, 50) for number in range(10)]
    engine = Engine("e", COST, EngineLimits(max_sequences=3))
    for job in jobs:
        engine.arrive(job, 0.0)
    engine.begin(0.0)
    assert engine.running == 3
    assert len(engine.waiting) == 7


def test_an_engine_with_priorities_takes_the_higher_class_first():
    jobs = [Job(number, 0.0, 100, 50) for number in range(4)]
    for job, rank in zip(jobs, (2, 2, 0, 1), strict=True):
        job.rank = rank
    engine = Engine("e", COST, EngineLimits(max_sequences=1, is_by_priority=True))
    for job in jobs:
        engine.arrive(job, 0.0)
    assert [job.number for job in engine.waiting] == [2, 3, 0, 1]
