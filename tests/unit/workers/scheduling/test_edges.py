"""Corners that no longer story leads through."""

from random import Random
from types import SimpleNamespace

import pytest
from msgspec import structs

from tests.unit.workers.scheduling.bench import KNOWN, Bench
from workers.contracts.snapshot import RouteTarget
from workers.scheduling.endpoint_spec import DEFAULT_SPEC
from workers.scheduling.failures import recovery
from workers.scheduling.interface import EngineReport, KVChange, Reject, Request, SchedulerConfig
from workers.scheduling.latency.lengths import LengthModel
from workers.scheduling.ordering import class_queue, fair_queue
from workers.scheduling.peers.orders import deadline_at
from workers.scheduling.peers.registry import build_peer
from workers.scheduling.planning.backlog import Backlog
from workers.scheduling.planning.price import Demand
from workers.scheduling.prefix.index import PrefixIndex
from workers.scheduling.split import WeightedSplit
from workers.scheduling.ticket import State, Ticket
from workers.scheduling.workflows import Workflows

pytestmark = pytest.mark.unit


def a_request(number=1, **more):
    values = {"tenant_id": "t", "rank": 0, "prompt_tokens": 100, "predicted_output_tokens": 10.0, **more}
    return Request(request_id=number, version_id="v", max_queued_of_tenant=9, arrived_at=0.0, **values)


def test_full_steps_that_are_too_long_for_the_running_are_followed_by_a_pause():
    bench = Bench()
    bench.endpoint()
    number = bench.arrive(prompt_tokens=20_000, tpot_slo_s=0.02)
    bench.after(1.0)
    bench.first_token(number)
    endpoint = bench.scheduler._endpoints["e1"]
    bench.arrive(prompt_tokens=20_000, tpot_slo_s=0.02)
    assert endpoint.paused_until > endpoint.prefill_until > bench.now
    paused = bench.arrive(prompt_tokens=20_000, tpot_slo_s=0.02)
    assert paused not in bench.sent


def test_a_pause_ends_with_the_last_that_it_was_for():
    bench = Bench()
    bench.endpoint()
    endpoint = bench.scheduler._endpoints["e1"]
    running = bench.arrive(prompt_tokens=20_000, tpot_slo_s=0.02)
    bench.after(endpoint.prefill_until - bench.now)
    bench.first_token(running)
    waiting = bench.arrive(tpot_slo_s=0.02)
    assert endpoint.paused_until > bench.now
    assert waiting not in bench.sent
    bench.finish(running, tokens=2)
    assert waiting in bench.sent


def test_an_engine_that_no_pause_makes_fast_enough_does_not_pause():
    """A CPU takes 0.2 s a token: with a pace of 50 ms wanted it stood idle for seconds beside a queue."""
    bench = Bench()
    bench.endpoint(spec=DEFAULT_SPEC)
    for _ in range(6):
        number = bench.arrive(prompt_tokens=60, tpot_slo_s=0.05)
        bench.after(1.0)
        bench.first_token(number)
        bench.after(2.0)
        bench.finish(number, tokens=11)
    together = [bench.arrive(prompt_tokens=60, tpot_slo_s=0.05) for _ in range(4)]
    assert set(together) <= set(bench.sent)


def test_the_reason_against_an_endpoint_is_told():
    bench = Bench()
    bench.endpoint("e1")
    blocks = tuple(range(1, 41))
    prefix = {"prompt_tokens": 41 * 128, "prefix_blocks": blocks, "block_tokens": 128}
    bench.arrive(**prefix)
    bench.endpoint("e2")
    reasons = []
    for change in ({"draining": True}, {"warmth": "loading"}):
        bench.after(2.0, step=0.1)
        bench.endpoint("e1", **change)
        bench.scheduler.take_decisions()
        bench.arrive(**prefix)
        decision = bench.scheduler.take_decisions()[-1]
        reasons += [each.reason for each in decision.considered if each.endpoint_id == "e1"]
    assert reasons == ["draining", "loading"]
    assert "EndpointModel(e1" in repr(bench.scheduler._endpoints["e1"])
    assert not bench.scheduler.is_idle("e1")


def test_a_full_endpoint_says_so():
    bench = Bench()
    bench.endpoint("full", slots=1)
    prefix = {"prompt_tokens": 41 * 128, "prefix_blocks": tuple(range(1, 41)), "block_tokens": 128}
    bench.arrive(**prefix)
    bench.endpoint("other")
    bench.scheduler.take_decisions()
    bench.arrive(**prefix)
    considered = bench.scheduler.take_decisions()[-1].considered
    assert {each.endpoint_id: each.reason for each in considered} == {"full": "no slot", "other": ""}


def test_a_stalled_and_a_broken_endpoint_are_told_apart():
    bench = Bench(stall_after_s=5.0)
    blocks = tuple(range(1, 41))
    prefix = {"prompt_tokens": 41 * 128, "prefix_blocks": blocks, "block_tokens": 128}
    bench.endpoint("hangs")
    bench.arrive(**prefix)
    bench.endpoint("works")
    while not bench.suspects:
        bench.after(1.0)
        bench.report("hangs", steps_total=1.0)
    bench.scheduler.take_decisions()
    bench.arrive(**prefix)
    assert "stalled" in [each.reason for each in bench.scheduler.take_decisions()[-1].considered]
    broken = Bench()
    broken.endpoint("fails")
    number = broken.arrive(**prefix)
    broken.endpoint("works")
    broken.fail(number)
    broken.after(0.3)
    broken.scheduler.take_decisions()
    broken.arrive(**prefix)
    assert "breaker paused" in [each.reason for each in broken.scheduler.take_decisions()[-1].considered]


def test_clocks_of_tenants_long_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(fair_queue, "MAX_CLOCKS", 10)
    queue = fair_queue.FairQueue()
    for number in range(50):
        queue.served(f"t{number}", 1.0)
        queue.served_at_once(f"u{number}", 1.0)
    assert len(queue._clocks) <= 11


def test_breakers_and_kinds_of_workflows_are_bounded(monkeypatch):
    monkeypatch.setattr(recovery, "MAX_BREAKERS", 3)
    kept = recovery.Recovery(SchedulerConfig())
    for number in range(10):
        kept.breaker_of(f"e{number}")
    assert len(kept._breakers) == 3
    monkeypatch.setattr("workers.scheduling.workflows.MAX_WORKFLOWS", 3)
    workflows = Workflows()
    assert workflows.arrived(a_request(), 0.0) is None
    for number in range(10):
        for _ in range(2):
            workflows.arrived(a_request(number, tenant_id=f"t{number}", workflow_id="w"), 0.0)
    assert len(workflows._kinds) == 3


def test_an_engine_that_claims_more_blocks_than_can_be_kept_loses_the_oldest(monkeypatch):
    monkeypatch.setattr("workers.scheduling.prefix.exact.MAX_EXACT_BLOCKS", 4)
    index = PrefixIndex()
    index.changed(0, [KVChange(stored=(1, 2, 3)), KVChange(stored=(11, 12, 13))])
    assert len(index) == 4
    assert index.count((11, 12, 13), 0) == 3
    index.changed(0, [KVChange(removed=(11,))])
    assert index.count((11, 12, 13), 0) == 0


def test_what_engines_are_busy_with_takes_no_more_than_there_is():
    backlog = Backlog(dict(enumerate(SimpleNamespace(prefill_until=at) for at in (1.0, 2.0, 3.0))), 0.0)
    assert backlog.taken_s(10.0) == 6.0
    assert backlog.taken_s(1.5) == 1.0 + 2 * 1.5


def test_a_price_for_no_room_at_all_lets_everything_down_to_the_least_dense():
    demand = Demand()
    demand.arrived(1.0, 1.0, 0.0, 0.0)
    demand.steps_s = 5.0
    assert demand.price(2.0, of_kv=False) == 0.0


def test_without_a_prediction_the_uncertainty_is_that_of_the_tenants_lengths():
    lengths = LengthModel()
    rng = Random(1)  # noqa: S311 - seeded
    for _ in range(300):
        lengths.learn("even", 0.0, 100)
        lengths.learn("uneven", 0.0, max(1, int(100 * rng.lognormvariate(0, 1.5))))
    assert lengths.log_deviation("even", 0.0) < lengths.log_deviation("uneven", 0.0)


def test_a_scaled_engine_is_as_much_slower():
    cost = KNOWN.cost
    assert cost.scaled(3.0).step_s(100, 2, 50, 10) == pytest.approx(3.0 * cost.step_s(100, 2, 50, 10))


def test_tickets_are_readable():
    ticket = Ticket(a_request(7), 1)
    ticket.state, ticket.start_by = State.KEPT, 1.5
    assert repr(ticket) == "Ticket(7 kept, start by 1.500)"


def test_peers_that_refuse_do_so_on_arrival_or_when_the_turn_comes():
    deep = build_peer("least-outstanding+8+fcfs+class", 1000, Random(1))  # noqa: S311 - seeded
    deep.endpoint_updated("e", "v", 9, 0.0, is_draining=False)
    deep.endpoint_updated("e", "v", 9, 0.0, is_draining=True)
    answers = [deep.request_arrived(a_request(number, rank=2), 0.0) for number in range(200)]
    assert [Reject(199, "queue_full")] == answers[-1]
    late = build_peer("cache-aware+8+edf+late", 1000, Random(1))  # noqa: S311 - seeded
    late.endpoint_updated("e", "v", 9, 0.0, is_draining=False)
    for number in range(9):
        late.request_arrived(a_request(number, ttft_slo_s=1.0), 0.0)
    report = EngineReport(taken_at=0.0, running=8, waiting=0, kv_usage=0.5)
    assert late.endpoint_reported("e", report, 0.0) == late.tick(0.0) == []
    assert late.request_finished(0, 5.0) == [Reject(8, "cannot_meet_deadline")]
    assert deadline_at(a_request(deadline_at=7.0)) == 7.0


def test_a_cache_aware_peer_leaves_the_cache_when_its_fleet_is_out_of_balance():
    peer = build_peer("cache-aware", 1_000_000, Random(1))  # noqa: S311 - seeded
    for name in ("a", "b"):
        peer.endpoint_updated(name, "v", 999, 0.0, is_draining=False)
    sent = []
    for number in range(70):
        commands = peer.request_arrived(a_request(number, prefix_blocks=(1, 2, 3), block_tokens=32), 0.0)
        sent += [command.endpoint_id for command in commands]
    assert sent[:66] == ["a"] * 65 + ["b"]


def test_a_split_ends_at_its_last_target_whatever_the_rounding():
    split = WeightedSplit("m", [RouteTarget(version_id="a", weight=1), RouteTarget(version_id="b", weight=2)])
    split._total_weight = 30
    assert {split._by_hash(str(number)) for number in range(100)} == {0, 1}


def test_a_spec_that_changes_in_size_alone_keeps_what_was_learned():
    bench = Bench()
    bench.endpoint(spec=KNOWN)
    for _ in range(3):
        number = bench.arrive(prompt_tokens=20_000)
        bench.after(1.0)
        bench.first_token(number)
        bench.finish(number)
    bench.endpoint(spec=structs.replace(KNOWN, max_sequences=7))
    assert bench.state().prefill_observations == 3
    bench.note(bench.scheduler.endpoint_updated("e1", "v1", 5, bench.now, is_draining=False))
    assert bench.scheduler._endpoints["e1"].max_sequences == 7


def test_progress_of_a_request_that_waits_again_is_ignored():
    bench = Bench()
    bench.endpoint()
    number = bench.arrive()
    bench.fail(number)
    assert bench.progress(number, 5) == bench.first_token(number) == []


def test_weights_of_tenants_long_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(class_queue, "MAX_CLOCKS", 2)
    queue = class_queue.ClassQueue(0.5, is_fair=True)
    for tenant in ("a", "b", "c"):
        queue.set_weight(tenant, 2.0)
    assert list(queue._weights) == ["b", "c"]


def test_a_workflow_that_is_lost_already_is_not_lost_again_by_its_deadline():
    workflows = Workflows()
    request = a_request(workflow_id="w", deadline_at=5.0, workflow_tokens=1)
    assert workflows.arrived(request, 0.0) == "workflow_budget"
    assert workflows.lost(6.0) == []
    assert workflows.waste.workflows == 1


def test_an_answer_in_no_time_at_all_teaches_no_speed():
    bench = Bench()
    bench.endpoint(spec=structs.replace(KNOWN, is_speed_known=False))
    bench.finish(bench.arrive(), 20)
    assert bench.scheduler._endpoints["e1"].prefill_speed.observations == 0


def test_what_its_endpoint_failed_may_go_to_another_version():
    bench = Bench()
    bench.endpoint("e1")
    bench.endpoint("e2", version="v2")
    number = bench.arrive(alternatives=("v2",))
    bench.fail(number)
    bench.after(0.05)
    assert bench.sent[number] == "e2"


def test_of_many_open_endpoints_without_room_each_is_looked_at_before_long():
    bench = Bench()
    for name in "abcdef":
        bench.endpoint(name)
    full = [bench.arrive(prompt_tokens=int(0.8 * KNOWN.cost.kv_capacity_tokens)) for _ in range(6)]
    bench.now += 1000.0
    for number in full:
        bench.first_token(number)
    waits = bench.arrive(prompt_tokens=int(0.3 * KNOWN.cost.kv_capacity_tokens))
    bench.after(0.1)
    assert waits not in bench.sent
    bench.finish(full[-1], 0)
    bench.after(0.1)
    assert waits in bench.sent


def test_an_answer_that_outgrows_its_prediction_before_it_has_a_first_token_is_in_no_step_yet():
    """The pieces of a stream that goes on elsewhere may be told of before its first token there."""
    bench = Bench()
    bench.endpoint()
    number = bench.arrive(predicted_output_tokens=10.0)
    endpoint = bench.scheduler._endpoints["e1"]
    bench.progress(number, 5000)
    assert endpoint.context_tokens == 0.0
    bench.first_token(number)
    assert endpoint.context_tokens > 4000


def test_no_prediction_breaks_a_length_whatever_was_learned_from_some_that_were_alike():
    lengths = LengthModel()
    for number in range(30_000):
        predicted = 1000 + number % 2
        lengths.learn("t", predicted, 1 if predicted == 1000 else 1001)
    assert 0 <= lengths.expect("t", 1.0) <= 1e9
    assert 0 < lengths.expect("t", 1e9) <= 1e9


@pytest.mark.parametrize("weight", [float("inf"), 1e300, 1e-300, 0.0, -1.0, float("nan")])
def test_no_weight_breaks_the_shares_of_others(weight):
    bench = Bench()
    bench.endpoint(slots=1)
    for _ in range(20):
        for _ in range(20):
            bench.arrive(ttft_slo_s=5.0, prompt_tokens=5000)
            bench.arrive(tenant="odd", weight=weight, tenant_weight=weight, ttft_slo_s=5.0, prompt_tokens=5000)
        bench.after(0.3)
    prices = bench.scheduler._queues.pools["v1"].plan.prices
    assert prices.price > 0
    bench.after(30.0, step=1.0)
    bench.arrive(ttft_slo_s=5.0)
    assert prices._weight_of_all == pytest.approx(sum(prices._weights.values()))


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf"), -1.0, 1e300])
def test_what_no_request_can_be_is_taken_as_what_it_comes_nearest_to(odd):
    bench = Bench()
    bench.endpoint(slots=1)
    names = ("predicted_output_tokens", "ttft_slo_s", "tpot_slo_s", "deadline_at")
    for name in names:
        for _ in range(3):
            number = bench.arrive(**{name: odd})
            bench.after(0.02)
            bench.note(bench.scheduler.request_withdrawn(number, bench.now))
    assert bench.scheduler.queued_total() == bench.scheduler.running_total() == 0
    last = bench.arrive(ttft_slo_s=1.0)
    assert bench.sent[last] == "e1"


def test_an_arrival_that_is_told_twice_is_one():
    bench = Bench()
    bench.endpoint(slots=1)
    bench.arrive()
    waiting = bench.arrive()
    bench.number -= 1
    bench.arrive()
    assert bench.scheduler.queued_total() == 1
    bench.finish(1)
    bench.finish(waiting)
    assert bench.order == [1, waiting]
    assert bench.scheduler.queued_total() == bench.scheduler.running_total() == 0


def test_what_is_parked_under_denser_work_becomes_late_in_its_time():
    bench = Bench()
    bench.endpoint(slots=1)
    bench.arrive()
    plan = bench.scheduler._queues.pools["v1"].plan
    bench.arrive(ttft_slo_s=1000.0)
    bench.arrive(ttft_slo_s=0.5, prompt_tokens=9000)
    waiting = list(bench.scheduler._queues.pools["v1"].waiting.values())
    for ticket in waiting:
        plan._park(ticket)
    plan.prices._prices, plan._price_at = {"t1": 1e12}, bench.now + 60.0
    plan.advance(Backlog({}, bench.now), bench.now + 0.2)
    assert [ticket.state for ticket in waiting] == [State.PARKED, State.PARKED]
    plan.advance(Backlog({}, bench.now), bench.now + 0.6)
    assert [ticket.state for ticket in waiting] == [State.PARKED, State.LATE]
