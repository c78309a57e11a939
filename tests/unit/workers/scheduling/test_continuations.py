import pytest

from tests.unit.workers.scheduling.bench import Bench

pytestmark = pytest.mark.unit


def a_broken_stream(*, generated, **more):
    """One that began on an engine, and waits for the other."""
    bench = Bench()
    bench.endpoint("e1", slots=1)
    bench.endpoint("e2", slots=1)
    others = bench.arrive()
    number = bench.arrive(prompt_tokens=1000, predicted_output_tokens=400.0, **more)
    bench.first_token(number)
    bench.after(20)
    bench.fail(number, generated_tokens=generated)
    return bench, number, others


@pytest.mark.parametrize(("generated", "to_come"), [(0, 400), (300, 100), (500, 500)])
def test_what_goes_on_is_appraised_by_what_is_read_and_what_is_to_come(generated, to_come):
    bench, number, others = a_broken_stream(generated=generated)
    bench.finish(others)
    ticket = bench.scheduler._queues.tickets[number]
    assert ticket.endpoint is not None
    assert (ticket.prompt_tokens, round(ticket.output_tokens)) == (1000 + generated, to_come)
    fresh = Bench()
    fresh.endpoint("e", slots=1)
    alone = fresh.scheduler._queues.tickets[
        fresh.arrive(prompt_tokens=1000 + generated, predicted_output_tokens=float(to_come))
    ]
    assert ticket.cost_s == pytest.approx(alone.cost_s)
    bench.progress(number, generated + to_come)
    assert round(ticket.output_tokens) == to_come, "it is as long as was expected"
    bench.finish(number, generated + to_come)
    assert bench.scheduler._queues.pools["v1"].fleet.endpoints[0].context_tokens == 0.0


def test_an_answer_that_has_begun_is_not_late_and_never_shed():
    """Its first token has come: that its limit lies long past must not cost it the rest."""
    bench, number, others = a_broken_stream(generated=100, ttft_slo_s=0.5)
    for _ in range(60):
        for _ in range(8):
            bench.arrive(prompt_tokens=20_000, ttft_slo_s=0.5)
        bench.after(0.5, step=0.1)
    assert bench.rejects
    assert number not in bench.rejects
    bench.finish(others)
    assert bench.order[:3] == [others, number, number]
