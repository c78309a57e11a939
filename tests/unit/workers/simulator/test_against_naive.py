from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.workers.simulator.naive_engine import NaiveEngine, Sequence
from workers.engines.costs import load_profiles
from workers.scheduling.latency.step_cost import StepCost
from workers.simulator.engine import Engine
from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job

pytestmark = pytest.mark.unit

SMALL = StepCost(
    t_fixed_ms=1.3, ms_per_seq=0.01, t_weight_ms=5.0, ms_per_token=0.02, p=2.0, attn_fixed_ms=0.4,
    ms_per_ctx_token=1e-3, ms_per_attn_pair=1e-5, kv_capacity_tokens=16 * 220,
)  # fmt: skip
LIMITS = EngineLimits(max_sequences=5, max_batched_tokens=128)


@st.composite
def traces(draw):
    """Prompts of a few families, so that some find the beginning of theirs cached; together more than fits."""
    jobs, now = [], 0.0
    for number in range(draw(st.integers(1, 14))):
        now += draw(st.sampled_from([0.0, 0.003, 0.0171, 0.3, 2.0]))
        prompt, output = draw(st.integers(1, 1100)), draw(st.integers(1, 260))
        job = Job(number, now, prompt, output)
        family, shared = draw(st.integers(0, 2)), draw(st.integers(0, 40))
        job.units = tuple(
            family * 1000 + unit if unit < shared else (number + 1) * 10_000 + unit for unit in range(prompt // 16)
        )
        jobs.append(job)
    return jobs


def play(engine, jobs, cancels=()):
    """Who arrives as a step ends is there for the next. `cancels` are times and places in `jobs`."""
    coming, leaving, now, ends_at = list(jobs), list(cancels), 0.0, None
    while coming or ends_at is not None:
        due = [coming[0].arrived_at] if coming else []
        due += [] if ends_at is None else [ends_at]
        now = min([*due, leaving[0][0]] if leaving else due)
        while coming and coming[0].arrived_at <= now:
            if engine.arrive(coming.pop(0), now):
                ends_at = engine.ends_at
        while leaving and leaving[0][0] <= now:
            job = jobs[leaving.pop(0)[1]]
            if job.finished_at is None and engine.cancel(job, now):
                ends_at = engine.ends_at
        if ends_at is not None and ends_at <= now:
            engine.end()
            ends_at = None
        if ends_at is None:
            ends_at = engine.begin(now)


def play_naively(cost, limits, jobs, cancels=()):
    engine, now = NaiveEngine(cost, limits), 0.0
    sequences = [Sequence(job) for job in jobs]
    coming = list(sequences)
    leaving = [(at, sequences[place]) for at, place in cancels]
    while coming or engine.waiting or engine.running:
        while coming and coming[0].job.arrived_at <= now:
            engine.waiting.append(coming.pop(0))
        engine.cancel([one for at, one in leaving if at <= now])
        ends_at = engine.step(now, leaving)
        if ends_at is None:
            if coming:
                now = coming[0].job.arrived_at
            continue
        while coming and coming[0].job.arrived_at < ends_at:
            engine.waiting.append(coming.pop(0))
        now = ends_at
    return engine, sequences


def compare(cost, limits, jobs, cancels=()):
    engine = Engine("e", cost, limits)
    play(engine, jobs, cancels)
    naive, sequences = play_naively(cost, limits, jobs, cancels)
    for job, sequence in zip(jobs, sequences, strict=True):
        assert job.hit_tokens == sequence.hit_tokens, job
        assert job.first_token_at == pytest.approx(sequence.first_token_at, abs=1e-9), job
        assert job.finished_at == pytest.approx(sequence.finished_at, abs=1e-9), job
        assert (job.is_cancelled, job.generated) == (sequence.is_cancelled, sequence.answered), job
    assert engine.preemptions == naive.preemptions
    assert engine.kv.used == naive.in_use() == 0
    return engine


@settings(max_examples=150, deadline=None, derandomize=True)
@given(traces())
def test_first_and_last_tokens_are_those_of_an_engine_that_counts_every_step_and_block(jobs):
    compare(SMALL, LIMITS, jobs)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(traces(), st.data())
def test_so_they_are_when_some_are_cancelled_on_the_way(jobs, data):
    places = data.draw(st.sets(st.integers(0, len(jobs) - 1), min_size=1))
    cancels = [(jobs[place].arrived_at + data.draw(st.floats(0.0001, 3.0)), place) for place in places]
    compare(SMALL, LIMITS, jobs, sorted(cancels))


def crowd(seed, count):
    """Three families of prompts at once: more than fits."""
    rng = Random(seed)  # noqa: S311 - seeded
    jobs = []
    for number in range(count):
        job = Job(number, number * 0.05, rng.randint(100, 1100), rng.randint(100, 600))
        family = rng.randrange(3)
        job.units = tuple(family * 1000 + unit if unit < 20 else job.number * 1000 + 9000 + unit
                          for unit in range(job.prompt_tokens // 16))  # fmt: skip
        jobs.append(job)
    return jobs


@pytest.mark.parametrize("seed", range(5))
def test_so_they_are_where_sequences_are_preempted_and_prompts_found_cached(seed):
    jobs = crowd(seed, 30)
    engine = compare(SMALL, LIMITS, jobs)
    assert engine.preemptions > 0
    assert any(job.hit_tokens for job in jobs)


@pytest.mark.parametrize("name", ["llama3-8b/h100/tp1", "llama3-8b/a100/tp1"])
def test_so_they_are_by_the_costs_of_real_engines(name):
    compare(load_profiles()[name], EngineLimits(), crowd(1, 40))


def test_a_leap_that_a_newcomer_cuts_short_has_evicted_nothing_for_steps_that_never_came():
    cached, answering, newcomer = Job(0, 0.0, 1600, 1), Job(1, 5.0, 960, 1000), Job(2, 6.0, 1616, 3)
    cached.units, newcomer.units = tuple(range(100)), tuple(range(101))
    answering.units = tuple(range(1000, 1060))
    compare(SMALL, LIMITS, [cached, answering, newcomer])
    assert newcomer.hit_tokens == 1600
