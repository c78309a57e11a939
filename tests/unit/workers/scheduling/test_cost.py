"""What a request is said to cost, and what follows from it."""

import pytest

from tests.unit.workers.scheduling.bench import KNOWN, Bench
from workers.scheduling.interface import Request
from workers.scheduling.planning.price import PRICED_LOAD, BidPrices
from workers.scheduling.prefix import reuse
from workers.scheduling.prefix.pins import Pins
from workers.scheduling.ticket import Ticket


def ask(bench, **more):
    return bench.arrive(ttft_slo_s=10.0, tpot_slo_s=1.0, **more)


def a_request(now):
    return Request(
        request_id=1, version_id="v1", tenant_id="t", rank=0, max_queued_of_tenant=10, arrived_at=now, prompt_tokens=100
    )


def decisions_by_id(bench):
    return {decision.request_id: decision for decision in bench.scheduler.take_decisions()}


def test_what_decodes_beside_a_prompt_is_no_cost_of_the_prompt():
    costs = []
    for companions in (0, 40):
        bench = Bench()
        bench.endpoint()
        for _ in range(companions):
            bench.first_token(ask(bench, prompt_tokens=3000))
            bench.now += 1.0
        number = ask(bench, prompt_tokens=2000)
        costs.append(decisions_by_id(bench)[number].cost_s)
    alone, crowded = costs
    assert crowded == pytest.approx(alone, rel=0.05)


def test_blocks_in_use_by_others_cost_nothing_and_so_raise_the_density():
    bench = Bench()
    bench.endpoint()
    blocks = tuple(range(50))
    shared = {"prompt_tokens": 6500, "prefix_blocks": blocks, "block_tokens": 128, "predicted_output_tokens": 500.0}
    first = ask(bench, **shared)
    bench.first_token(first)
    beside = ask(bench, **shared)
    bench.finish(beside, 0)  # 0 is unknown: nothing is learned of lengths
    bench.finish(first, 0)
    after = ask(bench, **shared)
    costs = decisions_by_id(bench)
    assert costs[beside].cost_s < costs[after].cost_s < costs[first].cost_s


def test_who_goes_on_with_what_was_sent_before_is_worth_starting_with():
    """A conversation pays for its first prompt by the calls that follow; a single question does not."""
    bench = Bench()
    bench.endpoint()
    for round_number in range(60):
        for tenant, first_block in (("talks", 0), ("asks", 1000 * round_number)):
            blocks = tuple(range(first_block, first_block + 40))
            number = ask(bench, tenant=tenant, prompt_tokens=5200, prefix_blocks=blocks, block_tokens=128)
            bench.first_token(number)
            bench.finish(number)
        bench.now += 1.0
    new = {}
    for tenant, first_block in (("talks", 500_000), ("asks", 600_000)):
        blocks = tuple(range(first_block, first_block + 40))
        new[tenant] = ask(bench, tenant=tenant, prompt_tokens=5200, prefix_blocks=blocks, block_tokens=128)
        bench.after(1.0)
    made = decisions_by_id(bench)
    talks, asks = made[new["talks"]], made[new["asks"]]
    assert talks.cost_s == pytest.approx(asks.cost_s)
    assert talks.density > 1.5 * asks.density


def test_tenants_of_which_nothing_was_sent_for_long_are_forgotten(monkeypatch):
    monkeypatch.setattr(reuse, "MAX_TENANTS", 2)
    shares = reuse.Reuse()
    for tenant in ("a", "b", "a", "c"):
        shares.learn(tenant, 50, 100)
    shares.learn("c", 0, 0)  # nothing is known of its prompt
    assert len(shares) == 2
    assert shares.share_of("a") > shares.share_of("c") > shares.share_of("b") == 0.0


def test_room_in_the_cache_is_kept_for_what_is_worth_more_than_the_price():
    fleet = Bench()
    fleet.endpoint()
    pool = fleet.scheduler._queues.pools["v1"]
    capacity = pool.fleet.endpoints[0].kv_capacity
    held = fleet.arrive(prompt_tokens=int(0.78 * capacity))
    fleet.now += 100.0
    fleet.first_token(held)
    pool.plan.prices.price = 1.0
    for density, finds_room in ((1.0, False), (10.0, True)):
        ticket = Ticket(a_request(fleet.now), 99, "v1")
        ticket.density = density
        ticket.start_by = fleet.now + 1.0
        assert (pool.fleet.choose(ticket, fleet.now) is not None) is finds_room


def test_the_last_to_leave_lets_go_of_the_blocks():
    pins = Pins()
    pins.add((1, 2, 3))
    pins.add((1, 2))
    pins.remove((1, 2, 3))
    assert len(pins) == 2
    pins.remove((1, 2))
    assert len(pins) == 0


def test_there_is_no_price_while_neither_steps_nor_cache_are_scarce():
    prices = BidPrices(0.8, is_fair=False)
    for number in range(10):
        prices.arrived("t", 1.0, density=1.0, steps_s=1.4, kv_s=1.4, now=number / 10)
    prices.update(capacity=1.0, now=1.0)
    assert prices.load == pytest.approx(0.7)
    assert prices.price == 0.0

    for number in range(3):
        prices.arrived("t", 1.0, density=1.0, steps_s=1.4, kv_s=1.4, now=1.0 + number / 10)
    prices.update(capacity=1.0, now=1.5)
    assert prices.price == 1.0


def test_what_would_come_too_late_makes_way_for_what_would_not():
    bench = Bench()
    bench.endpoint(spec=KNOWN)
    step_s = KNOWN.cost.step_s(KNOWN.max_batched_tokens, 1, 0.0, 0.0)
    for _ in range(int(20 / step_s)):  # load above 1, by what came in the window
        bench.arrive(tenant="crowd", prompt_tokens=2048, ttft_slo_s=1000.0, rank=2)
    bench.after(0.3, step=0.02)
    busy_until = bench.scheduler._endpoints["e1"].prefill_until
    tight = bench.arrive(prompt_tokens=2048, ttft_slo_s=busy_until - bench.now + 0.9 * step_s)
    roomy = bench.arrive(prompt_tokens=2048, ttft_slo_s=100 * step_s)
    bench.after(busy_until - 0.4 * step_s - bench.now)
    assert tight not in bench.sent
    assert roomy in bench.sent


def test_the_last_weight_of_a_tenant_is_that_of_all_that_waits_of_it():
    bench = Bench()
    bench.endpoint(slots=1)
    running = bench.arrive(tenant="first")
    for _ in range(30):
        bench.arrive(tenant="grows", tenant_weight=1.0)
        bench.arrive(tenant="stays", tenant_weight=1.0)
    bench.arrive(tenant="grows", tenant_weight=2.0)
    bench.scheduler.weight_changed("stays", 0.5)
    for _ in range(20):
        bench.after(0.1)
        bench.finish(running, 0)
        running = bench.order[-1]
    of_stays = [number for number in bench.order[1:] if number % 2 and number < 62]
    assert len(bench.order) == 21
    assert len(of_stays) == pytest.approx(4, abs=1)


def test_many_flows_that_fit_pay_no_price_and_are_not_parked():
    """Clients of one endpoint, each with a flow of its own, as the gateway's fairness ids make them.

    They take four fifths of the steps, and a good part of the KV cache beside that: more than one engine in all.
    """
    bench = Bench()
    bench.endpoint()
    running = []
    for moment in range(300):
        number = bench.arrive(
            tenant=f"t/{moment % 7}", tenant_weight=1 / 7, prompt_tokens=1500 + 3000 * (moment % 2),
            predicted_output_tokens=400.0, ttft_slo_s=2.0, tpot_slo_s=0.15,
        )  # fmt: skip
        bench.after(0.28, step=0.02)
        bench.first_token(number)
        running.append(number)
        if len(running) > 20:
            bench.finish(running.pop(0), 400)
    prices = bench.scheduler._queues.pools["v1"].plan.prices
    assert prices.load > PRICED_LOAD
    made = bench.scheduler.take_decisions()
    assert {decision.bid_price for decision in made} == {0.0}
    assert {decision.waited_as for decision in made} <= {"new", "kept"}
