"""What the agent does about each replica, told as stories of a node."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.support.node_world import World
from tests.support.specs import replica_spec
from workers.agent.engines.memory import ActionKind, Timers
from workers.agent.engines.offers import LoadTimes, coming_endpoints, offered_endpoints

pytestmark = pytest.mark.unit

START, STOP, KILL, FORGET = ActionKind.START, ActionKind.STOP, ActionKind.KILL, ActionKind.FORGET
ONE = replica_spec(replica_id="one")
TWO = replica_spec(replica_id="two", port=9001)


def world(*specs, **settings):
    node = World(**settings)
    node.want(*specs)
    return node


def ready(*specs, **settings):
    node = world(*specs, **settings)
    node.turn(5)
    assert set(node.states().values()) == {"ready"}
    return node


def offered(node):
    endpoints = offered_endpoints(node.reports.values(), node.views(), lambda engine: True)
    return {endpoint.endpoint_id: endpoint.is_draining for endpoint in endpoints}


def coming(node, load_times=None):
    found = coming_endpoints(
        node.reports.values(),
        node.views(),
        lambda engine: True,
        load_times or LoadTimes(),
        now=node.now,
        unix_time=node.now + 1000.0,
    )
    return {endpoint.endpoint_id: (endpoint.warmth, endpoint.ready_at) for endpoint in found}


def draining(spec):
    return structs.replace(spec, is_draining=True)


def test_a_wanted_replica_is_started_and_offered_once_it_has_answered_a_real_request():
    node = world(ONE)
    assert node.turn() == [START]
    assert (node.states(), offered(node)) == ({"one": "starting"}, {})
    node.turn(2)
    assert (node.states(), offered(node)) == ({"one": "warming"}, {})
    node.turn()
    assert (node.states(), offered(node)) == ({"one": "ready"}, {"one": False})


def test_an_engine_that_loads_is_told_as_coming_and_for_how_long_once_that_is_known():
    node = world(ONE)
    node.turn(2)
    assert coming(node) == {"one": ("loading", None)}
    load_times = LoadTimes()
    load_times.note(ONE, 30.0)
    began_at = node.views()["one"].started_at
    assert coming(node, load_times) == {"one": ("loading", began_at + 1030.0)}
    node.turn(3)
    assert (coming(node, load_times), offered(node)) == ({}, {"one": False})


def test_what_loads_longer_than_expected_is_never_due_at_once():
    node = world(ONE)
    node.turn(2)
    load_times = LoadTimes()
    load_times.note(ONE, 0.1)
    assert coming(node, load_times) == {"one": ("loading", node.now + 1005.0)}


def test_load_times_are_of_the_spec_else_of_the_version_and_bounded():
    load_times = LoadTimes()
    load_times.note(structs.replace(ONE, max_running_requests=99), 7.0)
    assert load_times.expected(ONE) == 7.0
    for number in range(1000):
        load_times.note(structs.replace(ONE, version_id=f"v{number}"), 1.0)
    assert len(load_times._seconds) <= 256


def test_a_healthy_engine_that_never_answers_a_real_request_is_never_offered_and_killed_at_last():
    node = world(ONE, start_timeout_s=10)
    node.turn()
    engine = node.engines["one"]
    engine.passes_trials = False
    for _ in range(14):
        node.turn()
        assert offered(node) == {}
    assert engine.signals == ["KILL"]


def test_an_engine_that_crashed_is_started_again_and_each_time_later():
    node = ready(ONE, timers=Timers(first_backoff_s=4, longest_backoff_s=8))
    waits = []
    for _ in range(4):
        node.engines["one"].is_alive = False
        assert node.turn() == [FORGET]
        assert node.reports["one"].detail == "ended with status 1"
        crashed_at = node.now
        while node.turn() != [START]:
            assert "next try" in node.reports["one"].detail
        waits.append(node.now - crashed_at)
    assert waits == [4, 8, 8, 8]
    assert node.reports["one"].restarts == 4


def test_an_engine_that_lived_long_enough_is_forgiven_its_crashes():
    node = ready(ONE, timers=Timers(first_backoff_s=4, stable_after_s=20))
    for _ in range(2):
        node.engines["one"].is_alive = False
        node.turn(40)
    assert node.memories["one"].crashes_in_a_row == 0


def test_a_replica_that_cannot_be_started_says_why_and_is_tried_again_later():
    node = world(ONE, refused_sources={"a-model"})
    node.turn(3)
    assert node.states() == {"one": "failed"}
    assert "no such model" in node.reports["one"].detail
    node.refused_sources.clear()
    node.turn(20)
    assert node.states() == {"one": "ready"}


def test_another_spec_is_tried_at_once_where_the_one_before_was_refused():
    node = world(ONE, refused_sources={"a-model"})
    node.turn(2)
    node.want(structs.replace(ONE, source="another", spec_hash="hash-2"))
    node.turn()
    assert "one" in node.engines


def test_a_replica_that_is_no_longer_wanted_is_drained_then_stopped():
    node = ready(ONE, TWO)
    node.want(TWO)
    node.turn()
    assert offered(node) == {"one": True, "two": False}
    assert node.engines["one"].signals == []
    node.turn(6)
    assert set(node.engines) == {"two"}


def test_draining_waits_for_the_last_request():
    node = ready(ONE)
    node.engines["one"].running_requests = 1
    node.want(draining(ONE))
    node.turn(100)
    assert (node.states(), node.engines["one"].signals) == ({"one": "draining"}, [])
    node.engines["one"].running_requests = 0
    node.turn(4)
    assert node.states() == {"one": "stopped"}


def test_draining_ends_at_its_limit_whatever_still_runs_and_says_so():
    node = ready(ONE, timers=Timers(drain_limit_s=30))
    node.engines["one"].running_requests = 1
    node.want()
    said = set()
    for _ in range(35):
        node.turn()
        said |= {report.detail for report in node.reports.values()}
    assert node.engines == {}
    assert "finishing what it has: 1 running" in said
    assert "stopping with what it has left: its 30 s to finish that are over" in said


def test_an_engine_that_was_never_offered_is_stopped_without_draining():
    node = world(ONE)
    node.turn()
    node.want()
    assert node.turn() == [STOP]


def test_an_engine_that_ignores_sigterm_is_killed_after_the_grace():
    node = ready(ONE)
    engine = node.engines["one"]
    engine.minds_sigterm = False
    node.want()
    node.turn(12)
    assert engine.signals == ["TERM", "KILL"]
    assert node.engines == {}


def test_a_changed_spec_replaces_the_process_after_draining_it():
    node = ready(ONE)
    changed = structs.replace(ONE, spec_hash="hash-2")
    node.want(changed)
    node.turn(12)
    assert node.engines["one"].spec == changed
    assert (node.states(), node.reports["one"].restarts) == ({"one": "ready"}, 0)


def test_a_new_agent_takes_over_what_runs_without_touching_it():
    node = ready(ONE)
    pid = node.engines["one"].pid
    node.restart()
    node.turn()
    assert (node.states(), offered(node)) == ({"one": "ready"}, {"one": False})
    node.turn(5)
    assert node.engines["one"].pid == pid
    assert node.engines["one"].signals == []


def test_without_a_desired_state_nothing_is_started_or_stopped():
    node = ready(ONE)
    node.desired = None
    node.restart()
    node.turn(5)
    assert (node.states(), node.engines["one"].signals) == ({"one": "ready"}, [])
    assert World().turn() == []


def test_an_empty_desired_state_is_not_an_unknown_one():
    node = ready(ONE)
    node.want()
    node.turn(8)
    assert node.engines == {}


def test_a_drain_that_is_taken_back_ends_where_nothing_was_stopped_yet():
    node = ready(ONE)
    engine = node.engines["one"]
    engine.running_requests = 1
    node.want(draining(ONE))
    node.turn(5)
    node.want(ONE)
    node.turn()
    assert (node.states(), offered(node), engine.signals) == ({"one": "ready"}, {"one": False}, [])
    node.want(draining(ONE))
    node.turn()
    assert node.states() == {"one": "draining"}


def test_draining_says_what_it_waits_for():
    node = ready(ONE)
    node.engines["one"].running_requests = 2
    node.want(draining(ONE))
    node.turn(3)
    assert node.reports["one"].detail == "finishing what it has: 2 running"


def test_what_is_not_known_is_reported_as_unknown():
    node = ready(ONE)
    assert node.reports["one"].kv_used_ratio is None
    node.engines["one"].answers = False
    node.turn(2)
    assert node.reports["one"].running_requests is None


def test_a_probe_of_a_process_that_is_gone_says_nothing_about_the_next():
    node = ready(ONE)
    old = node.engines["one"]
    node.engines["one"].is_alive = False
    node.turn(3)
    before = node.memories["one"]
    node._probe(old)
    node._try(old)
    assert node.memories["one"] == before


WISHES = ["want", "drain", "drop", "change", "sleep"]
MISHAPS = ["crash", "sicken", "heal", "busy", "idle", "deaf", "freeze", "lie"]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([*WISHES, *MISHAPS, "reborn"]),
        st.sampled_from(["one", "two"]),
        st.integers(0, 12),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(EVENTS)
def test_whatever_happens_the_node_ends_up_running_what_is_wanted(events):
    """World itself asserts that no replica ever has two processes and no living engine is forgotten."""
    node = World(timers=Timers(drain_limit_s=50, longest_backoff_s=8, most_crashes=1000), can_sleep=True)
    wanted = {}
    for number, (event, replica_id, turns) in enumerate(events):
        happen(node, wanted, event, replica_id, number)
        node.want(*wanted.values())
        node.turn(turns)
        for endpoint_id in offered(node):
            assert node.engines[endpoint_id].has_passed
    for engine in node.engines.values():
        engine.running_requests, engine.is_healthy, engine.answers, engine.passes_trials = 0, True, True, True
    node.turn(150)
    awake = {name for name, spec in wanted.items() if not spec.is_draining and not spec.is_asleep}
    assert {name for name, engine in node.engines.items() if not engine.is_asleep} == awake
    for name, engine in node.engines.items():
        assert engine.spec.spec_hash == wanted[name].spec_hash
        assert node.states()[name] == ("ready" if name in awake else "sleeping")
    assert offered(node) == dict.fromkeys(sorted(awake), False)


def happen(node, wanted, event, replica_id, number):
    engine = node.engines.get(replica_id)
    if event == "reborn":
        node.restart()
    elif event in WISHES:
        wish(wanted, event, replica_id, number)
    elif engine:
        befall(engine, event)


def wish(wanted, event, replica_id, number):
    spec = wanted.get(replica_id, replica_spec(replica_id=replica_id))
    match event:
        case "want":
            wanted[replica_id] = structs.replace(spec, is_draining=False, is_asleep=False)
        case "sleep":
            wanted[replica_id] = structs.replace(spec, is_draining=False, is_asleep=True)
        case "drain":
            wanted[replica_id] = draining(spec)
        case "drop":
            wanted.pop(replica_id, None)
        case "change":
            wanted[replica_id] = structs.replace(spec, spec_hash=f"hash-{number}")


def befall(engine, event):
    match event:
        case "crash":
            engine.is_alive = False
        case "sicken" | "heal":
            engine.is_healthy = event == "heal"
        case "busy" | "idle":
            engine.running_requests = int(event == "busy")
        case "deaf":
            engine.minds_sigterm = False
        case "freeze":
            engine.answers = False
        case "lie":
            engine.passes_trials = False
