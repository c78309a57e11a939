"""A rolling update, told as turns of the loop."""

from dataclasses import dataclass, field
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.deployments.policies.replicas import Pace, ReplicaView, plan_replicas
from apps.deployments.policies.rollout import Course, rollout_of

pytestmark = pytest.mark.unit


@dataclass
class Row:
    number: int
    is_current: bool = True
    state: str = "ready"
    is_draining: bool = False
    is_asleep: bool = False
    can_wake: bool = True
    is_lost: bool = False
    has_node: bool = True


@dataclass
class World:
    """New replicas are ready, and draining ones gone, when a test says so."""

    wanted: int
    rows: list[Row]
    pace: Pace = field(default_factory=Pace)
    keeps_asleep: bool = False

    def turn(self):
        plan = plan_replicas(
            wanted=self.wanted,
            replicas=[_view(row) for row in self.rows],
            pace=self.pace,
            keeps_asleep=self.keeps_asleep,
        )
        by_id = {UUID(int=row.number): row for row in self.rows}
        for each in [*plan.drain, *plan.retire]:
            by_id[each].is_draining, by_id[each].is_asleep = True, False
        for each in plan.sleep:
            by_id[each].is_asleep = True
        for each in plan.wake:
            by_id[each].is_asleep = False
        self.rows = [row for row in self.rows if UUID(int=row.number) not in plan.remove]
        for _ in range(plan.create_count):
            self.add(is_current=True)
        for each in plan.create_like:
            self.add(is_current=by_id[each].is_current)
        return plan

    def add(self, *, is_current):
        number = max((row.number for row in self.rows), default=0) + 1
        self.rows.append(Row(number, is_current, "pending"))

    def come_up(self):
        for row in self.rows:
            if not row.is_draining and row.state == "pending":
                row.state = "ready"

    def finish_draining(self):
        self.rows = [row for row in self.rows if not row.is_draining]

    def count(self, *, is_current, state=None):
        rows = [row for row in self.rows if not row.is_draining and row.is_current == is_current]
        return len([row for row in rows if state in (None, row.state)])

    def run(self):
        for _ in range(60):
            self.turn()
            self.come_up()
            self.finish_draining()


def _view(row):
    return ReplicaView(
        replica_id=UUID(int=row.number),
        state=row.state,
        is_draining=row.is_draining,
        has_node=row.has_node,
        is_lost=row.is_lost,
        is_current=row.is_current,
        is_asleep=row.is_asleep,
        can_wake=row.can_wake,
    )


def older(count, state="ready"):
    return [Row(number, is_current=False, state=state) for number in range(1, count + 1)]


def test_one_more_is_made_and_proved_before_one_of_before_goes():
    world = World(3, older(3))
    assert (world.turn().create_count, world.count(is_current=False)) == (1, 3)
    assert world.turn().retire == []
    world.come_up()
    assert len(world.turn().retire) == 1
    assert (world.count(is_current=True), world.count(is_current=False)) == (1, 2)


def test_without_a_surge_one_goes_first_where_one_may_be_missing():
    world = World(1, older(1), Pace(max_surge=0, max_unavailable=1))
    plan = world.turn()
    assert (plan.create_count, len(plan.retire)) == (0, 1)
    assert world.turn().create_count == 1


@settings(deadline=None)
@given(
    wanted=st.integers(1, 8),
    running=st.integers(0, 8),
    surge=st.integers(0, 4),
    unavailable=st.integers(0, 4),
    coming_up=st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_the_bounds_hold_in_every_turn_whatever_is_slow(wanted, running, surge, unavailable, coming_up):
    if not surge and not unavailable:
        return
    world = World(wanted, older(running), Pace(max_surge=surge, max_unavailable=unavailable))
    for comes_up in coming_up:
        ready_before = sum(row.state == "ready" and not row.is_draining for row in world.rows)
        world.turn()
        active = [row for row in world.rows if not row.is_draining]
        ready = sum(row.state == "ready" for row in active)
        assert len(active) <= max(wanted + surge, running)
        assert ready >= min(ready_before, max(0, wanted - unavailable))
        if comes_up:
            world.come_up()
            world.finish_draining()
    world.run()
    assert (world.count(is_current=True, state="ready"), world.count(is_current=False)) == (wanted, 0)


def test_a_new_revision_that_does_not_come_up_takes_nothing_away():
    world = World(2, older(2))
    for _ in range(20):
        world.turn()
    assert (world.count(is_current=False, state="ready"), world.count(is_current=True)) == (2, 1)


def test_what_never_served_gives_way_at_once():
    world = World(2, older(2, state="failed"))
    assert len(world.turn().retire) == 2


def test_of_what_is_silent_nobody_knows_that_it_does_not_serve():
    world = World(2, older(2, state="unknown"))
    world.turn()
    world.come_up()
    assert world.turn().retire == []


def test_paused_it_stays_as_it_is_and_a_missing_one_is_made_like_those_of_before():
    world = World(3, [*older(2), Row(3)], Pace(is_paused=True))
    assert vars(world.turn()) == vars(plan_replicas(wanted=0, replicas=[]))
    world.rows = world.rows[1:]
    world.turn()
    assert (world.count(is_current=False), world.count(is_current=True)) == (2, 1)


def test_resumed_it_goes_on_from_where_it_was():
    world = World(3, [*older(2), Row(3)], Pace(is_paused=True))
    world.turn()
    world.pace = Pace()
    world.run()
    assert (world.count(is_current=True), world.count(is_current=False)) == (3, 0)


def test_undone_the_old_ones_that_still_run_are_the_current_ones_again():
    world = World(3, older(3))
    for _ in range(2):
        world.turn()
        world.come_up()
    for row in world.rows:
        row.is_current = not row.is_current
    world.run()
    assert [row.number for row in world.rows if row.number <= 2] == [1, 2]
    assert world.count(is_current=True, state="ready") == 3


def test_nothing_that_serves_goes_before_gateways_know_the_new_version():
    world = World(1, older(1), Pace(may_retire=False))
    world.run()
    assert (world.count(is_current=False), world.count(is_current=True)) == (1, 1)
    world.pace = Pace()
    world.run()
    assert world.count(is_current=False) == 0


def test_scaled_to_nothing_in_the_middle_all_go():
    world = World(0, [*older(2), Row(3)])
    world.turn()
    assert all(row.is_draining for row in world.rows)


def test_a_surplus_sleeps_where_that_is_wanted_and_wakes_before_another_is_made():
    world = World(1, [Row(1), Row(2)], keeps_asleep=True)
    assert world.turn().sleep == [UUID(int=2)]
    world.wanted = 3
    plan = world.turn()
    assert (plan.wake, plan.create_count) == ([UUID(int=2)], 1)


def test_one_whose_memory_is_gone_makes_way_for_another_elsewhere():
    world = World(1, [Row(1, is_asleep=True, state="sleeping", can_wake=False)], keeps_asleep=True)
    plan = world.turn()
    assert (plan.wake, plan.create_count, plan.drain) == ([], 1, [UUID(int=1)])


def test_one_that_sleeps_is_left_alone_while_it_is_not_needed():
    world = World(0, [Row(1, is_asleep=True, state="sleeping", can_wake=False)], keeps_asleep=True)
    assert vars(world.turn()) == vars(plan_replicas(wanted=0, replicas=[]))


def test_asleep_and_out_of_date_it_goes():
    world = World(0, [Row(1, is_current=False, is_asleep=True, state="sleeping")], keeps_asleep=True)
    assert world.turn().drain == [UUID(int=1)]


def test_asleep_and_its_engine_ended_it_goes_for_there_is_nothing_left_to_wake():
    world = World(0, [Row(1, is_asleep=True, state="stopped")], keeps_asleep=True)
    assert world.turn().drain == [UUID(int=1)]
    world = World(1, [Row(1, is_asleep=True, state="stopped")], keeps_asleep=True)
    plan = world.turn()
    assert (plan.wake, plan.create_count, plan.drain) == ([], 1, [UUID(int=1)])


def course(state="ready", *, is_current=True, **facts):
    return Course(is_current=is_current, state=state, is_draining=facts.pop("is_draining", False), **facts)


OLD = course(is_current=False)


@pytest.mark.parametrize(
    ("replicas", "pace", "state", "words"),
    [
        ([course()], Pace(), "done", ""),
        ([course("starting")], Pace(), "progressing", "waits for one that is starting"),
        ([course("failed", problem="it crashed too often")], Pace(), "stuck", "it crashed too often"),
        ([], Pace(), "progressing", "1 more are to be made"),
        ([course("starting"), OLD], Pace(), "progressing", "waits for one that is starting"),
        ([course(), OLD], Pace(may_retire=False), "progressing", "every gateway"),
        ([course(), OLD], Pace(is_paused=True), "paused", "1 are of the newest revision"),
        ([course("failed", problem="it crashed too often", detail="no GPU"), OLD], Pace(), "stuck", "often: no GPU"),
        ([course(), course(is_current=False, is_draining=True)], Pace(), "progressing", "finish what they have"),
        ([course(), course(is_current=False, is_draining=True, problem="hangs")], Pace(), "stuck", "hangs"),
    ],
)
def test_a_rollout_says_where_it_is_and_what_it_waits_for(replicas, pace, state, words):
    rollout = rollout_of(wanted=1, replicas=replicas, pace=pace)
    assert rollout.state == state
    assert words in rollout.detail
