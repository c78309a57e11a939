"""Weights that are fetched first, and engines that sleep and wake, told as stories of a node."""

import pytest
from msgspec import structs

from tests.support.specs import replica_spec
from tests.unit.workers.agent.engines.test_reconcile import coming, offered, ready, world
from workers.agent.engines.memory import Timers, WeightsView

pytestmark = pytest.mark.unit

ONE = replica_spec(replica_id="one")


def test_weights_are_fetched_before_the_engine_is_started():
    node = world(ONE, weights={"one": WeightsView(detail="not here yet")})
    node.turn()
    assert (node.fetched, node.engines, node.states()) == (["one"], {}, {"one": "fetching"})
    node.weights = {"one": WeightsView(detail="1 of 4 GiB", ratio=0.25, is_fetching=True)}
    node.turn()
    assert (node.reports["one"].detail, node.reports["one"].progress_ratio) == ("1 of 4 GiB", 0.25)
    assert node.fetched == ["one"]
    node.weights = {}
    node.turn(5)
    assert node.states() == {"one": "ready"}


def test_weights_for_which_there_is_no_room_say_so():
    node = world(ONE, weights={"one": WeightsView(problem="no room", is_fetching=True)})
    node.turn(3)
    assert (node.states(), node.reports["one"].detail, node.fetched) == ({"one": "failed"}, "no room", [])


def asleep(spec):
    return structs.replace(spec, is_asleep=True)


def test_an_engine_sleeps_once_it_has_finished_what_it_has_and_keeps_its_process():
    node = ready(ONE, can_sleep=True)
    engine = node.engines["one"]
    engine.running_requests = 1
    node.want(asleep(ONE))
    node.turn(10)
    assert (node.states(), offered(node), engine.lies_asleep) == ({"one": "draining"}, {"one": True}, False)
    engine.running_requests = 0
    node.turn(5)
    assert (node.states(), offered(node), engine.signals) == ({"one": "sleeping"}, {}, [])
    assert coming(node) == {"one": ("asleep", None)}


def test_it_is_woken_when_wanted_and_offered_once_it_has_answered():
    node = ready(ONE, can_sleep=True)
    engine = node.engines["one"]
    node.want(asleep(ONE))
    node.turn(10)
    node.want(ONE)
    engine.passes_trials = False
    node.turn(6)
    assert (engine.lies_asleep, node.states(), offered(node)) == (False, {"one": "warming"}, {})
    engine.passes_trials = True
    node.turn(2)
    assert (node.states(), offered(node)) == ({"one": "ready"}, {"one": False})


def test_one_that_never_wakes_is_replaced():
    node = ready(ONE, can_sleep=True, timers=Timers(wake_limit_s=20))
    engine = node.engines["one"]
    node.want(asleep(ONE))
    node.turn(10)
    node.want(ONE)
    engine.passes_trials = False
    node.turn(40)
    assert engine.signals == ["KILL"]
    assert node.states() == {"one": "ready"}


def neighbours(*names):
    return [replica_spec(replica_id=name, accelerators=["0"]) for name in names]


def test_those_that_sleep_on_one_accelerator_wake_by_turns_and_none_waits_for_the_other_for_ever():
    specs = neighbours("one", "two", "three")
    node = world(*specs, can_sleep=True)
    node.turn(30)
    engines = dict(node.engines)
    node.want(*map(asleep, specs))
    node.turn(10)
    assert set(node.states().values()) == {"sleeping"}
    node.want(*specs)
    for _ in range(20):
        node.turn()
        assert sum(engine.is_asleep and not engine.lies_asleep for engine in node.engines.values()) <= 1
    assert set(node.states().values()) == {"ready"}
    assert node.engines == engines
    assert all(engine.signals == [] for engine in engines.values())


def test_one_that_must_wait_for_its_turn_to_wake_is_not_taken_for_one_that_hangs():
    sleeper, loader = neighbours("one", "two")
    node = world(sleeper, can_sleep=True, start_timeout_s=300.0)
    node.turn(5)
    node.want(asleep(sleeper))
    node.turn(10)
    engine = node.engines["one"]
    node.want(asleep(sleeper), loader)
    node.turn()
    node.engines["two"].passes_trials = False
    node.want(sleeper, loader)
    node.turn(60)
    assert (node.states()["one"], engine.signals) == ("sleeping", [])
    assert "loads there first" in node.reports["one"].detail
    node.engines["two"].passes_trials = True
    node.turn(10)
    assert (set(node.states().values()), engine.signals) == ({"ready"}, [])


def test_a_new_agent_does_not_offer_what_sleeps():
    node = ready(ONE, can_sleep=True)
    node.want(asleep(ONE))
    node.turn(10)
    node.restart()
    node.turn()
    assert offered(node) == {}
    node.turn(2)
    assert node.states() == {"one": "sleeping"}


def test_an_engine_that_cannot_sleep_stops():
    node = ready(ONE)
    node.want(asleep(ONE))
    node.turn(10)
    assert (node.states(), node.engines) == ({"one": "stopped"}, {})
