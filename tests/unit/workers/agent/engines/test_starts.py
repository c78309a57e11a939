import pytest
from msgspec import structs

from tests.support.specs import replica_spec
from workers.agent.engines import reconcile
from workers.agent.engines.memory import ActionKind, ProcessView, ReplicaMemory, Timers
from workers.agent.engines.starts import held_back
from workers.contracts.desired import DesiredState

pytestmark = pytest.mark.unit

GIB = 1024**3


def spec(name, *keys, gib=10, **facts):
    return replica_spec(replica_id=name, accelerators=list(keys), reserved_bytes=gib * GIB, **facts)


def process(name, *keys, has_passed=False, is_alive=True, **facts):
    return ProcessView(spec=spec(name, *keys, **facts), pid=1, started_at=0, is_alive=is_alive, has_passed=has_passed)


def waiting(starts, processes=(), *, wanted=None, free=None):
    running = {each.spec.replica_id: each for each in processes}
    specs = {each.replica_id: each for each in [*starts, *(p.spec for p in processes)]} if wanted is None else wanted
    return held_back(starts, running, specs, {key: gib * GIB for key, gib in (free or {}).items()})


def test_two_that_begin_on_one_gpu_take_turns():
    assert waiting([spec("a", "0"), spec("b", "0"), spec("c", "1")]) == {
        "b": "waits for accelerator 0: replica …a loads there first"
    }


def test_the_next_one_waits_until_the_first_has_answered():
    assert list(waiting([spec("b", "0")], [process("a", "0")])) == ["b"]
    assert waiting([spec("b", "0")], [process("a", "0", has_passed=True)]) == {}


def test_one_that_is_dead_holds_nobody_up():
    assert waiting([spec("b", "0")], [process("a", "0", is_alive=False)]) == {}


def test_a_place_is_taken_only_when_the_one_before_has_ended():
    leaving = process("a", "0", has_passed=True)
    assert waiting([spec("b", "0")], [leaving], wanted={}) == {
        "b": "waits for accelerator 0: replica …a there has not ended yet"
    }


def test_measured_memory_must_be_free_first():
    assert waiting([spec("a", "0", gib=40)], free={"0": 39}) == {
        "a": "waits for accelerator 0: 39.0 GiB is free there, 40.0 GiB is reserved for it"
    }
    assert waiting([spec("a", "0", gib=40)], free={"0": 40}) == {}
    assert waiting([spec("a", "0", gib=40)]) == {}


def test_on_the_host_nobody_waits():
    assert waiting([spec("a"), spec("b")], [process("c")]) == {}


def test_a_turn_reports_who_waits_as_placed_and_starts_the_rest():
    desired = DesiredState(node_id="n", generation=1, fence=1, replicas=[spec("a", "0"), spec("b", "0")])
    turn = reconcile.turn(desired, {}, {}, Timers(), 0.0)
    assert [(report.replica_id, report.state) for report in turn.reports] == [("a", "starting"), ("b", "placed")]
    assert [(action.kind, action.spec.replica_id) for action in turn.actions] == [(ActionKind.START, "a")]


def crashed(times, timers):
    """The memory after so many crashes, each tried again as soon as may be."""
    wanted = spec("a")
    desired = DesiredState(node_id="n", generation=1, fence=1, replicas=[wanted])
    memories, now = {}, 0.0
    for pid in range(1, times + 1):
        dead = ProcessView(spec=wanted, pid=pid, started_at=now, is_alive=False, exit_detail="out of memory")
        memories = reconcile.turn(desired, {"a": dead}, memories, timers, now).memories
        now += 100.0
    return desired, memories, now


def test_a_crash_loop_ends_and_shows_its_cause():
    desired, memories, now = crashed(3, Timers(most_crashes=3))
    turn = reconcile.turn(desired, {}, memories, Timers(most_crashes=3), now)
    (report,) = turn.reports
    assert turn.actions == []
    assert (report.state, report.has_given_up) == ("failed", True)
    assert report.detail == "given up after 3 crashes: out of memory"


def test_it_is_tried_again_when_something_has_changed_which_a_restart_is_too():
    timers = Timers(most_crashes=3)
    _, memories, now = crashed(3, timers)
    changed = DesiredState(node_id="n", generation=2, fence=1, replicas=[spec("a", spec_hash="other")])
    turn = reconcile.turn(changed, {}, memories, timers, now)
    assert [each.kind for each in turn.actions] == [ActionKind.START]
    assert (turn.memories["a"].crashes_in_a_row, turn.memories["a"].restarts) == (0, 3)


def test_fewer_crashes_than_that_are_tried_again():
    desired, memories, now = crashed(2, Timers(most_crashes=3))
    turn = reconcile.turn(desired, {}, memories, Timers(most_crashes=3), now)
    assert [each.kind for each in turn.actions] == [ActionKind.START]


def test_a_node_that_is_cut_off_starts_nothing_and_lets_go_what_runs():
    running = process("a", has_passed=True)
    desired = DesiredState(node_id="n", generation=1, fence=1, replicas=[running.spec, spec("b")])
    around = reconcile.Surroundings(must_end=True)
    turn = reconcile.turn(desired, {"a": running}, {"a": ReplicaMemory(pid=1)}, Timers(), 5.0, around=around)
    assert [(report.replica_id, report.state) for report in turn.reports] == [("a", "draining"), ("b", "stopped")]
    assert ActionKind.START not in {action.kind for action in turn.actions}


def test_one_that_wakes_waits_for_its_memory_and_its_turn_as_one_that_starts():
    sleeper = structs.replace(process("a", "0", has_passed=True), is_asleep=True, can_sleep=True)
    wanted = {"a": sleeper.spec}
    room = sleeper.spec.reserved_bytes - GIB
    assert held_back([sleeper.spec], {"a": sleeper}, wanted, {"0": room}) == {}
    assert "is reserved for it" in held_back([sleeper.spec], {"a": sleeper}, wanted, {"0": room - 1})["a"]
    loading = process("b", "0", has_passed=False)
    both = {"a": sleeper, "b": loading}
    assert "loads there first" in held_back([sleeper.spec], both, wanted | {"b": loading.spec}, {})["a"]
    assert held_back([loading.spec], {"a": sleeper}, wanted | {"b": loading.spec}, {}) == {}
    assert (
        "loads there first" in held_back([loading.spec], {"a": sleeper}, wanted | {"b": loading.spec}, {}, {"a"})["b"]
    )


def test_one_that_lies_down_is_waited_for_and_one_that_sleeps_is_not():
    awake = process("a", "0", has_passed=True)
    wanted = {"a": structs.replace(awake.spec, is_asleep=True)}
    assert "not asleep yet" in held_back([spec("b", "0")], {"a": awake}, wanted, {})["b"]
    assert held_back([spec("b", "0")], {"a": structs.replace(awake, is_asleep=True)}, wanted, {}) == {}
