from datetime import UTC, datetime, timedelta

import pytest

from apps.deployments.policies import lifecycle
from apps.deployments.policies.lifecycle import TABLE, alarm_of, may_follow
from workers.agent.settings import LONGEST_DRAIN_S

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def alarm(state, *, minutes, **facts):
    return alarm_of(state, NOW - timedelta(minutes=minutes), NOW, **facts)


def test_every_follower_is_a_state_of_the_table():
    assert {each for rule in TABLE.values() for each in rule.followers} <= set(TABLE)


def test_every_state_can_be_reached_and_left():
    reached = {lifecycle.PENDING}
    while more := {each for state in reached for each in TABLE[state].followers} - reached:
        reached |= more
    assert reached == set(TABLE)
    assert all(rule.followers for rule in TABLE.values())


def test_from_any_state_with_a_node_a_replica_can_be_stopped():
    for state in set(TABLE) - {lifecycle.PENDING, lifecycle.STOPPED}:
        assert may_follow(state, lifecycle.STOPPED)


def test_nothing_is_ready_before_it_had_a_place():
    assert not may_follow(lifecycle.PENDING, lifecycle.READY)
    assert may_follow(lifecycle.PLACED, lifecycle.READY)


def test_a_state_that_lasts_too_long_says_what_is_the_matter():
    assert alarm("starting", minutes=24) == ""
    assert alarm("starting", minutes=30) == "its engine loads for too long (for more than 25 min)"
    assert alarm("ready", minutes=100_000) == ""


def test_a_drain_that_does_not_end_is_an_alarm_well_before_its_agent_cuts_it_short():
    assert alarm("draining", minutes=6).startswith("it has not finished what it had")
    assert TABLE["draining"].limit.total_seconds() < LONGEST_DRAIN_S


def test_one_that_was_given_up_says_so_at_once():
    assert "crashed too often" in alarm("failed", minutes=0, has_given_up=True)


@pytest.mark.parametrize("state", [each for each in TABLE if TABLE[each].limit])
def test_every_limit_has_its_words(state):
    assert alarm(state, minutes=10_000)
