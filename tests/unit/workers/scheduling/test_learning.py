"""What is learned of engines, how fast, and what an outlier does."""

from random import Random

import pytest

from tests.unit.workers.scheduling.bench import KNOWN, Bench
from workers.scheduling.endpoint_spec import DEFAULT_SPEC
from workers.scheduling.latency.speed import KIN_OBSERVATIONS, LEARNED_AFTER, Pace, Speed

pytestmark = pytest.mark.unit


def test_a_known_speed_moves_slowly_to_what_is_seen():
    speed = Speed(is_known=True)
    for _ in range(200):
        speed.learn(1.3 / speed.factor)
    assert speed.factor == pytest.approx(1.3, rel=0.01)


def test_outliers_move_it_little():
    speed, rng = Speed(is_known=True), Random(1)  # noqa: S311 - seeded
    for number in range(400):
        speed.learn(1000.0 if number % 50 == 0 else rng.uniform(0.95, 1.05) / speed.factor)
    assert speed.factor == pytest.approx(1.0, abs=0.15)


def test_an_unknown_speed_is_the_median_of_the_first_few():
    speed = Speed(is_known=False)
    for ratio in (40.0, 38.0, 900.0, 42.0, 41.0)[:LEARNED_AFTER]:
        assert not speed.is_learned
        speed.learn(ratio / speed.factor)
    assert speed.is_learned
    assert speed.factor == pytest.approx(41.0)


def test_its_error_is_what_single_observations_differ_by():
    speed, rng = Speed(is_known=True), Random(2)  # noqa: S311 - seeded
    for _ in range(500):
        speed.learn(rng.choice([0.8, 1.2]) / speed.factor)
    assert speed.deviation == pytest.approx(0.2, abs=0.05)


def test_the_pace_of_answers_is_learned_from_the_first():
    pace = Pace()
    assert pace.step_s is None
    for _ in range(200):
        pace.learn(0.02)
    pace.learn(60.0)
    assert pace.step_s == pytest.approx(0.02, rel=0.06)


def serve(bench, count, *, prefill_s, tokens=20_000):
    for _ in range(count):
        number = bench.arrive(prompt_tokens=tokens)
        bench.after(prefill_s)
        bench.first_token(number)
        bench.after(50 * 0.03)
        bench.finish(number, 51)


def test_the_console_can_read_what_was_learned_and_how_well():
    bench = Bench()
    bench.endpoint(spec=DEFAULT_SPEC)
    assert (bench.state().prefill_tokens_per_s, bench.state().step_s) == (None, None)
    serve(bench, 20, prefill_s=1.0, tokens=2000)
    state = bench.state()
    assert state.prefill_tokens_per_s == pytest.approx(2000.0, rel=0.15)
    assert state.step_s == pytest.approx(0.03, rel=0.1)
    assert state.prefill_observations == 20
    assert 0 <= state.prefill_error < 0.2
    lengths = bench.scheduler.length_states()
    assert [(length.tenant_id, length.answers) for length in lengths] == [("t1", 20)]
    assert lengths[0].log_deviation > 0


def flood(bench):
    for number in range(1, 1501):
        bench.arrive(prompt_tokens=20_000, ttft_slo_s=0.5)
        if number % 20 == 0:
            bench.after(0.1)


def test_an_endpoint_of_unknown_speed_never_leads_to_a_refusal_for_an_slo():
    bench = Bench(max_queued_requests=100_000)
    bench.endpoint(spec=DEFAULT_SPEC)
    flood(bench)
    bench.after(120.0, step=0.5)
    assert bench.rejects == {}


def test_nor_does_a_fleet_in_which_one_is_unknown():
    bench = Bench(max_queued_requests=100_000)
    bench.endpoint("known", spec=KNOWN)
    bench.endpoint("unknown", spec=DEFAULT_SPEC)
    flood(bench)
    bench.after(120.0, step=0.5)
    assert bench.rejects == {}


def test_once_it_is_learned_what_cannot_be_in_time_is_refused():
    bench = Bench(max_queued_requests=100_000)
    bench.endpoint(spec=DEFAULT_SPEC)
    serve(bench, LEARNED_AFTER, prefill_s=10.0)
    flood(bench)
    bench.after(120.0, step=0.5)
    assert len(bench.rejects) > 500


def test_who_waited_before_it_was_learned_is_judged_then_too():
    bench = Bench(max_queued_requests=100_000)
    bench.endpoint(spec=DEFAULT_SPEC)
    for _ in range(500):
        bench.arrive(prompt_tokens=20_000, ttft_slo_s=0.5)
    for served in range(LEARNED_AFTER):
        assert bench.rejects == {}
        bench.after(10.0, step=0.5)
        bench.first_token(bench.order[served])
    bench.after(30.0, step=0.5)
    assert len(bench.rejects) > 400


def serve_whole(bench, count, *, total_s):
    for _ in range(count):
        number = bench.arrive(prompt_tokens=200)
        bench.after(total_s)
        bench.finish(number, 51)


def test_answers_in_one_piece_make_a_speed_known():
    bench = Bench(max_queued_requests=100_000)
    bench.endpoint(spec=DEFAULT_SPEC, slots=4)
    serve_whole(bench, LEARNED_AFTER, total_s=20.0)
    for _ in range(400):
        bench.arrive(prompt_tokens=200, ttft_slo_s=1.0)
    bench.after(30.0, step=0.5)
    assert len(bench.rejects) > 300


def test_one_that_has_not_worked_yet_is_taken_to_be_as_fast_as_one_that_has():
    bench = Bench(max_decisions=100)
    bench.endpoint("seen", spec=DEFAULT_SPEC)
    serve_whole(bench, LEARNED_AFTER, total_s=0.01)
    bench.endpoint("new", spec=DEFAULT_SPEC)
    serve_whole(bench, 1, total_s=0.01)
    bench.scheduler.take_decisions()
    bench.arrive()
    scores = [each.score for each in bench.scheduler.take_decisions()[-1].considered]
    assert scores[0] == pytest.approx(scores[1], rel=0.2)


def test_of_a_known_engine_they_teach_nothing():
    bench = Bench()
    bench.endpoint()
    serve_whole(bench, LEARNED_AFTER, total_s=20.0)
    assert bench.state().prefill_observations == 0


def test_what_decoding_costs_on_an_unknown_engine_is_learned_of_its_pace():
    slow, fast = Bench(max_decisions=100), Bench(max_decisions=100)
    for bench, step_s in ((slow, 0.7), (fast, 0.007)):
        bench.endpoint(spec=DEFAULT_SPEC)
        for _ in range(LEARNED_AFTER):
            number = bench.arrive()
            bench.first_token(number)
            bench.after(50 * step_s)
            bench.finish(number, 51)
        bench.arrive()
    costs_s = [bench.scheduler.take_decisions()[-1].cost_s for bench in (slow, fast)]
    assert costs_s[0] > 20 * costs_s[1]


def test_a_new_cost_of_a_known_endpoint_starts_over_and_the_same_does_not():
    bench = Bench()
    bench.endpoint(spec=DEFAULT_SPEC)
    serve(bench, 6, prefill_s=10.0)
    bench.endpoint(spec=DEFAULT_SPEC)
    assert bench.state().prefill_observations == 6
    bench.endpoint(spec=KNOWN)
    assert bench.state().prefill_observations == 0


def test_a_deadline_is_hopeless_only_when_even_a_short_answer_would_miss_it():
    """Predictions that were off by much widen what is still tried."""
    bench = Bench()
    rng = Random(3)  # noqa: S311 - seeded
    bench.endpoint(slots=1)
    for _ in range(300):
        bench.finish(bench.arrive(predicted_output_tokens=200.0), max(1, int(200 * rng.lognormvariate(0, 1.5))))
    running = bench.arrive()
    hopeful = bench.arrive(predicted_output_tokens=200.0, deadline_at=bench.now + 1.0)
    certain = bench.arrive(predicted_output_tokens=200_000.0, deadline_at=bench.now + 1.0)
    bench.after(0.1)
    assert certain in bench.rejects
    assert hopeful not in bench.rejects
    bench.finish(running)
    assert bench.sent[hopeful] == "e1"


def test_one_answer_that_took_an_hour_makes_no_deadline_look_out_of_reach():
    bench = Bench()
    bench.endpoint()
    stalled = bench.arrive()
    bench.first_token(stalled)
    bench.now += 3600.0
    bench.finish(stalled, 2)
    assert bench.scheduler._queues.pools["v1"].appraiser._pace_s < 0.03
    bench.arrive(deadline_at=bench.now + 5.0)
    assert len(bench.sent) == 2


def unknown_fleet(count):
    bench = Bench(max_decisions=100)
    for number in range(count):
        bench.endpoint(f"e{number}", spec=DEFAULT_SPEC)
    return bench, list(bench.scheduler._endpoints.values())


def test_engines_of_unknown_speed_are_taken_to_be_like_the_middle_of_what_they_have_shown():
    bench, endpoints = unknown_fleet(3)
    for _ in range(LEARNED_AFTER):
        numbers = sorted((bench.arrive() for _ in endpoints), key=bench.sent.get)
        assert [bench.sent[number] for number in numbers] == ["e0", "e1", "e2"]
        for number, wait_s in zip(numbers, (0.01, 0.02, 4.97), strict=True):
            bench.after(wait_s)
            bench.first_token(number)
            bench.finish(number)
    factors = [endpoint.prefill_speed.factor for endpoint in endpoints]
    assert max(factors) < 1.1 * min(factors)
    assert max(each.prefill_speed.own for each in endpoints) > 2 * min(each.prefill_speed.own for each in endpoints)


def test_one_that_comes_later_is_taken_to_be_like_the_others_too():
    bench, _ = unknown_fleet(1)
    serve(bench, 20, prefill_s=10.0)
    bench.endpoint("new", spec=DEFAULT_SPEC)
    old, new = bench.scheduler._endpoints.values()
    assert new.prefill_speed.factor == pytest.approx(old.prefill_speed.own, rel=0.05)


def test_what_an_engine_has_shown_itself_comes_to_weigh_more_than_its_kin():
    speed = Speed(is_known=False)
    speed.lean_on(1.0)
    seen = []
    for count in (LEARNED_AFTER, KIN_OBSERVATIONS, 1000):
        for _ in range(count):
            speed.learn(8.0 / speed.factor)
        seen.append(speed.factor)
    assert seen == [pytest.approx(1.0), pytest.approx(8.0**0.5), pytest.approx(8.0, rel=0.15)]


def test_of_a_known_engine_kin_say_nothing():
    bench, _ = unknown_fleet(2)
    bench.endpoint("known", spec=KNOWN)
    serve(bench, 20, prefill_s=10.0)
    assert (
        bench.scheduler._endpoints["known"].prefill_speed.own
        == bench.scheduler._endpoints["known"].prefill_speed.factor
    )


def test_prompts_that_fit_one_step_are_one_observation():
    bench, [endpoint] = unknown_fleet(1)
    numbers = [bench.arrive(prompt_tokens=200) for _ in range(8)]
    bench.after(0.1)
    for number in numbers:
        bench.first_token(number)
    assert endpoint.prefill_speed.observations == 1
    assert endpoint.prefill_speed.own == pytest.approx(0.1 / DEFAULT_SPEC.cost.step_s(1600, 8, 0.0, 0.0))


def test_a_late_first_token_of_what_fits_one_step_moves_nothing_that_comes_after_it():
    bench, [endpoint] = unknown_fleet(1)
    numbers = [bench.arrive(prompt_tokens=200) for _ in range(8)]
    bench.after(1.0)
    bench.first_token(numbers[0])
    assert endpoint.prefill_until == bench.now
