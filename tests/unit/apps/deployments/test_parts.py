from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from apps.deployments.policies.parts import (
    MOST_BROKEN_RUNS,
    Move,
    PartView,
    RunView,
    judge_run,
    meeting_port,
    wait_after,
    whole_state,
)

pytestmark = pytest.mark.unit

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BEGUN, BEFORE = RunView(has_started=True), RunView(has_started=False)


def part(rank=0, state="placed", *, is_of_run=True, is_prepared=False, detail=""):
    return PartView(
        node_name=f"n{rank}", rank=rank, state=state, detail=detail, is_of_run=is_of_run, is_prepared=is_prepared
    )


def move(run, *parts, now=NOW):
    return judge_run(run, parts, now).move


PREPARED = (part(0, is_prepared=True), part(1, is_prepared=True))


def test_all_parts_begin_together_once_each_is_prepared():
    assert move(BEFORE, *PREPARED) is Move.START
    assert move(BEFORE, PREPARED[0], part(1, "fetching")) is Move.STAY
    assert move(BEFORE, PREPARED[0], part(1, is_of_run=False, is_prepared=True)) is Move.STAY


@pytest.mark.parametrize("state", ["failed", "stopped"])
def test_a_part_that_ends_takes_the_whole_with_it_and_is_named(state):
    verdict = judge_run(BEGUN, [part(0, "ready"), part(1, state, detail="killed")], NOW)
    assert (verdict.move, verdict.reason) == (Move.BREAK, f"part 2 of 2 on n1 {state}: killed")


def test_what_is_told_of_a_run_before_breaks_nothing():
    assert move(BEGUN, part(0, "ready"), part(1, "failed", is_of_run=False)) is Move.STAY
    assert move(BEFORE, part(0, "failed"), part(1, "failed")) is Move.STAY


def test_after_each_broken_run_the_next_waits_longer_and_the_last_is_given_up():
    once = RunView(has_started=False, broken_runs=1, broken_at=NOW)
    assert move(once, *PREPARED, now=NOW + timedelta(seconds=1)) is Move.STAY
    assert move(once, *PREPARED, now=NOW + wait_after(1)) is Move.START
    assert wait_after(1) < wait_after(2) <= wait_after(20) == timedelta(minutes=5)
    often = RunView(has_started=False, broken_runs=MOST_BROKEN_RUNS, broken_at=NOW)
    assert move(often, *PREPARED, now=NOW + timedelta(days=1)) is Move.GIVE_UP


def test_what_has_been_ready_for_a_while_has_broken_never_before():
    run = RunView(has_started=True, broken_runs=3, ready_since=NOW)
    assert move(run, part(0, "ready"), part(1, "ready"), now=NOW + timedelta(seconds=59)) is Move.STAY
    assert move(run, part(0, "ready"), part(1, "ready"), now=NOW + timedelta(minutes=1)) is Move.SETTLE


def test_runs_meet_at_ports_of_their_own():
    ports = [meeting_port(UUID(int=1), run) for run in range(50)]
    assert len(set(ports)) >= 49
    assert all(20_000 <= port < 30_000 for port in ports)
    assert meeting_port(UUID(int=1), 3) == ports[3] != meeting_port(UUID(int=2), 3)


def test_stopped_is_what_has_stopped_everywhere():
    assert whole_state("stopped", ["stopped", "stopped"]) == "stopped" == whole_state("stopped", [])
    assert whole_state("stopped", ["stopped", "ready"]) == "draining"
    assert whole_state("ready", ["ready", "ready"]) == "ready"
