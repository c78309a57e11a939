import random

import pytest

from workers.contracts.endpoints import Endpoint, EngineShape
from workers.gateway.engines import Engine
from workers.gateway.pace import Pace
from workers.scheduling.endpoint import DEFAULT_SPEC

pytestmark = pytest.mark.unit

# A small model on a CPU: 400 tokens of prompt a second; a step takes 30 ms and 10 more for each request in it.
PROMPT_S = 1 / 400
STEP_S, STEP_PER_REQUEST_S = 0.03, 0.01


def run_requests(pace, count, *, seed=1, at_once=(1, 4)):
    noise = random.Random(seed)  # noqa: S311 - a test
    now = 0.0
    for _ in range(count):
        batch = noise.randint(*at_once)
        works = []
        ahead = 0
        for _ in range(batch):
            tokens = noise.randint(50, 800)
            works.append((pace.sent(tokens, now), tokens))
        for work, tokens in works:
            ahead += tokens
            pace.first_token(work, now + ahead * PROMPT_S * noise.uniform(0.9, 1.1))
        for work, tokens in works:
            length = noise.randint(20, 200)
            step_s = (STEP_S + STEP_PER_REQUEST_S * batch) * noise.uniform(0.9, 1.1)
            end = work.first_token_at + (length - 1) * step_s
            pace.learn(work, end, uncached_tokens=tokens, output_tokens=length)
        for work, _ in works:
            pace.ended(work)
        now += 100.0


def unknown_engine():
    endpoint = Endpoint(endpoint_id="e", version_id="v", base_url="http://h:1", engine="llamacpp")
    return Engine(endpoint, pool=None)


def test_the_real_pace_is_learned_from_first_tokens_and_ends():
    pace = Pace()
    run_requests(pace, 40)
    cost = pace.cost(kv_capacity_tokens=8192)
    assert pace.is_confident
    assert cost.step_s(1000, 1, 0.0, 0.0) == pytest.approx(1000 * PROMPT_S, rel=0.25)
    assert cost.step_s(4, 4, 0.0, 0.0) == pytest.approx(STEP_S + 4 * STEP_PER_REQUEST_S, rel=0.25)
    assert cost.kv_capacity_tokens == 8192


def test_accounts_return_to_zero():
    pace = Pace()
    run_requests(pace, 5)
    waiting = pace.sent(100, 1.0)
    pace.ended(waiting)
    assert (pace.waiting_tokens, pace.decoding) == (0, 0)


def test_an_engine_of_unknown_speed_has_no_pace_until_it_is_learned():
    engine = unknown_engine()
    assert not engine.is_paced
    assert engine.spec().cost == DEFAULT_SPEC.cost
    run_requests(engine.pace, 40)
    assert engine.is_paced
    assert engine.spec().cost.step_s(1, 1, 0.0, 0.0) > 4 * DEFAULT_SPEC.cost.step_s(1, 1, 0.0, 0.0)


def test_whole_answers_alone_teach_a_step_but_no_confidence():
    pace = Pace()
    for number in range(50):
        work = pace.sent(100, float(number))
        pace.learn(work, number + 1.0, uncached_tokens=100, output_tokens=11)
        pace.ended(work)
    assert pace.step.expect(1) == pytest.approx(0.1)
    assert not pace.is_confident


def test_what_is_cached_is_not_counted_as_read():
    pace = Pace()
    for number in range(20):
        work = pace.sent(1000, float(number))
        pace.first_token(work, number + 0.1)
        pace.learn(work, number + 0.2, uncached_tokens=100, output_tokens=11)
        pace.ended(work)
    assert pace.prefill_tokens_per_s == pytest.approx(1000)


def test_the_scheduler_is_told_once_and_again_after_a_change():
    pace = Pace()
    run_requests(pace, 40)
    assert pace.take_change()
    assert not pace.take_change()


def test_a_known_gpu_is_paced_from_the_start_and_its_cache_is_as_it_says():
    shape = EngineShape(
        cost_profile="llama3-8b/h100/tp1", time_scale=2.0, max_batched_tokens=4096, kv_capacity_tokens=1000
    )
    engine = Engine(Endpoint(endpoint_id="e", version_id="v", base_url="http://h:1", shape=shape), pool=None)
    spec = engine.spec()
    assert engine.is_paced
    assert (spec.max_batched_tokens, spec.max_sequences, spec.cost.kv_capacity_tokens) == (4096, 64, 1000)
    assert spec.cost.step_s(1, 1, 0.0, 0.0) == pytest.approx(2 * DEFAULT_SPEC.cost.step_s(1, 1, 0.0, 0.0))
    engine.kv_capacity_tokens = 2000
    assert engine.spec().cost.kv_capacity_tokens == 2000
