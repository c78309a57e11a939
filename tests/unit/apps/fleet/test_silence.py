from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from apps.fleet.policies.silence import NodeSight, is_silent, is_worth_writing, newly_lost

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def test_a_node_is_silent_after_15_seconds_and_before_its_first_word():
    assert not is_silent(ago(15), NOW)
    assert is_silent(ago(15.1), NOW)
    assert is_silent(None, NOW)


def test_a_heartbeat_is_written_each_5_seconds_at_most():
    assert is_worth_writing(None, NOW)
    assert not is_worth_writing(ago(4.9), NOW)
    assert is_worth_writing(ago(5), NOW)


def sights(*silent_s, lost=()):
    return [
        NodeSight(node_id=UUID(int=number), last_seen_at=NOW - timedelta(seconds=age), is_lost=number in lost)
        for number, age in enumerate(silent_s, start=1)
    ]


def lost(*silent_s, **facts):
    return [node_id.int for node_id in newly_lost(sights(*silent_s, **facts), NOW)]


def test_one_silent_node_is_lost_when_its_lease_and_the_margin_have_passed():
    assert lost(0, 0, 89) == []
    assert lost(0, 0, 91) == [3]


def test_when_every_node_is_silent_it_is_we_who_do_not_hear():
    assert lost(91) == []
    assert lost(91, 91) == []


def test_many_silent_at_once_are_our_own_deafness():
    assert lost(91, 91, 0, 0, 0, 0) == []
    assert lost(91, 91, *[0] * 8) == [1, 2]
    assert lost(91, 20, 0, 0) == []


def test_a_node_is_lost_once_and_one_that_never_spoke_never():
    assert lost(0, 0, 500, lost={3}) == []
    assert newly_lost([NodeSight(node_id=UUID(int=1), last_seen_at=None)], NOW) == []
