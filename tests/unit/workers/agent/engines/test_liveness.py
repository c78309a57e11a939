"""What lives and what only says so, told as stories of an engine."""

import pytest

from tests.support.node_world import World
from tests.support.specs import replica_spec
from workers.agent.engines.liveness import remember_trial
from workers.agent.engines.memory import ReplicaMemory, Timers
from workers.contracts.telemetry import EndpointEstimate

pytestmark = pytest.mark.unit

ONE = replica_spec(replica_id="one")


def serving(**timers):
    node = World(timers=Timers(**timers))
    node.want(ONE)
    node.turn(5)
    assert node.states() == {"one": "ready"}
    return node, node.engines["one"]


def turns_until(node, holds, most=60):
    for number in range(most):
        if holds():
            return number
        node.turn()
    raise AssertionError(f"not within {most} turns: {node.reports}")


def streams(node, **facts):
    fields = {"endpoint_id": "one", "version_id": "v", "state": "serving", "silent_s": 0.5}
    node.gateway = {"one": EndpointEstimate(**(fields | facts))}


def test_one_that_answers_nothing_is_out_of_routing_in_seconds_and_ended_within_half_a_minute():
    node, engine = serving()
    engine.answers = False
    assert turns_until(node, lambda: node.states()["one"] == "degraded") <= 10
    assert turns_until(node, lambda: engine.signals == ["KILL"]) <= 20
    node.turn(10)
    assert node.states() == {"one": "ready"}


def test_one_whose_health_lies_while_nothing_moves_is_ended_within_half_a_minute():
    node, engine = serving()
    engine.running_requests, engine.passes_trials = 3, False
    assert turns_until(node, lambda: "KILL" in engine.signals) <= 30
    assert "no token comes" in node.reports["one"].detail


def test_requests_that_pile_up_before_one_that_hangs_are_no_progress():
    node, engine = serving()
    engine.running_requests, engine.passes_trials = 1, False
    for _ in range(30):
        engine.running_requests += 1
        node.turn()
    assert "KILL" in engine.signals


def test_a_saturated_one_is_never_ended_however_slow_its_answers():
    node, engine = serving()
    engine.running_requests, engine.passes_trials, engine.is_healthy = 200, False, False
    for _ in range(300):
        engine.generated_tokens += 50
        node.turn()
    assert (engine.signals, node.states()) == ([], {"one": "ready"})


def test_a_trial_that_waits_behind_others_whose_tokens_come_does_not_degrade_it():
    memory = ReplicaMemory(pid=1, tokens_at=102.0, answered_at=104.0)
    waited = remember_trial(memory, 1, has_passed=False, began_at=100.0, now=104.0)
    assert (waited.failed_trials, waited.tried_at) == (0, 104.0)
    stuck = remember_trial(memory, 1, has_passed=False, began_at=103.0, now=107.0)
    assert stuck.failed_trials == 1


def test_nor_one_that_answers_no_probe_at_all_while_streams_move_through_the_gateway():
    node, engine = serving()
    engine.answers = engine.passes_trials = False
    streams(node)
    node.turn(120)
    assert (engine.signals, node.states()) == ([], {"one": "ready"})
    streams(node, silent_s=40.0)
    assert turns_until(node, lambda: "KILL" in engine.signals) <= 20


def test_one_whose_steps_are_long_is_known_for_it_after_the_first():
    node, engine = serving(stall_s=10)
    engine.running_requests = 1
    for _ in range(3):
        engine.generated_tokens += 1
        node.turn(9)
    engine.passes_trials = False
    node.turn(8)
    engine.generated_tokens += 1
    node.turn(14)
    assert (engine.signals, node.states()) == ([], {"one": "ready"})


def test_one_that_has_nothing_to_do_is_tried_now_and_then_and_ended_when_it_answers_no_more():
    node, engine = serving()
    before = engine.trials
    node.turn(65)
    assert 5 <= engine.trials - before <= 7
    assert node.states() == {"one": "ready"}
    engine.passes_trials = False
    assert turns_until(node, lambda: "KILL" in engine.signals) <= 30
    assert "answers no real request" in node.reports["one"].detail


def test_one_that_looks_stuck_but_answers_a_trial_lives():
    node, engine = serving()
    engine.running_requests = 3
    node.turn(80)
    assert engine.signals == []


def test_one_that_the_gateway_suspects_is_tried_at_once():
    node, engine = serving()
    node.turn(6)
    engine.passes_trials = False
    streams(node, state="suspended", silent_s=None)
    assert turns_until(node, lambda: "KILL" in engine.signals) <= 12


def test_one_that_says_it_is_unhealthy_is_ended_though_it_has_nothing_to_do():
    node, engine = serving()
    engine.is_healthy = engine.passes_trials = False
    assert turns_until(node, lambda: "KILL" in engine.signals) <= 28


def test_one_that_says_so_and_answers_real_requests_serves_on():
    node, engine = serving()
    engine.is_healthy = False
    for _ in range(60):
        node.turn()
        assert node.states() == {"one": "ready"}
    assert engine.signals == []


def test_one_that_recovers_is_offered_again():
    node, engine = serving()
    engine.answers = False
    node.turn(9)
    assert node.states() == {"one": "degraded"}
    engine.answers = True
    node.turn(5)
    assert (node.states(), engine.signals) == ({"one": "ready"}, [])


def test_one_that_hangs_while_it_drains_is_not_waited_for():
    node, engine = serving()
    engine.running_requests, engine.answers = 1, False
    node.want()
    assert turns_until(node, lambda: engine.signals) <= 20


@pytest.mark.parametrize("has_work", [True, False])
def test_a_machine_that_stood_still_for_long_ends_nobody(has_work):
    node, engine = serving()
    engine.running_requests = 3 * has_work
    engine.answers = engine.passes_trials = False  # what was asked when it stopped comes to nothing
    node.turn()
    node.now += 600
    engine.answers = engine.passes_trials = True
    node.turn(10)
    assert (engine.signals, node.states()) == ([], {"one": "ready"})


def test_nor_does_one_that_gets_its_time_in_pieces():
    node, engine = serving()
    for _ in range(10):
        engine.answers = False
        node.turn()
        node.now += 7
        engine.answers = True
        node.turn()
    assert (engine.signals, node.states()) == ([], {"one": "ready"})


def test_and_one_that_hangs_after_all_is_ended_as_soon_as_ever():
    node, engine = serving()
    node.now += 600
    node.turn()
    engine.answers = False
    assert turns_until(node, lambda: engine.signals == ["KILL"]) <= 20


def test_time_in_which_the_machine_stood_still_is_no_time_to_start_in():
    node = World(start_timeout_s=20)
    node.want(ONE)
    node.turn()
    node.engines["one"].is_healthy = False
    node.turn(3)
    node.now += 60
    node.turn(10)
    assert node.engines["one"].signals == []
    node.turn(10)
    assert "did not answer a real request" in node.reports["one"].detail
