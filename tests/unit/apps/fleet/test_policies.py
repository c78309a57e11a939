from datetime import UTC, datetime, timedelta

import pytest

from apps.fleet.policies import is_silent, is_worth_writing

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
