from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from apps.usage.policies.accelerators import PriceLine, counted_until, line_for, paid_until

pytestmark = pytest.mark.unit

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
NODE = uuid4()


def line(name="", price=1, *, ownership="owned", node_id=None, age_days=1):
    return PriceLine(name, node_id, ownership, price, NOON - timedelta(days=age_days))


def found(*lines, name="NVIDIA H100 80GB HBM3"):
    best = line_for(lines, name=name, node_id=NODE, at=NOON)
    return best and best.hour_pico_usd


def test_the_longest_name_that_is_part_of_the_accelerators_counts_whatever_its_case():
    assert found(line("", 1), line("h100", 2), line("H200", 3)) == 2


def test_a_nodes_own_line_goes_before_those_of_every_node():
    assert found(line("h100 80gb", 1), line("", 2, node_id=NODE), line("h100 80gb hbm3", 3, node_id=uuid4())) == 2


def test_the_newest_line_that_has_begun_counts():
    assert found(line("h100", 1, age_days=9), line("h100", 2, age_days=2), line("h100", 3, age_days=-1)) == 2
    assert found(line("h100", 3, age_days=-1)) is None


def test_an_owned_accelerator_is_paid_for_with_its_node_away_and_a_spot_one_is_not():
    away = NOON - timedelta(hours=3)
    assert paid_until(line(ownership="reserved"), last_seen_at=away, now=NOON) == NOON
    assert paid_until(line(ownership="spot"), last_seen_at=away, now=NOON) == away
    assert paid_until(line(ownership="spot"), last_seen_at=None, now=NOON) is None


def test_the_time_that_a_node_was_away_is_not_counted_when_it_comes_back():
    before = NOON - timedelta(hours=2)
    assert counted_until(NOON - timedelta(hours=1), before=before, now=NOON) == NOON
    assert counted_until(None, before=before, now=NOON) == NOON
    assert counted_until(NOON - timedelta(seconds=5), before=before, now=NOON) == NOON - timedelta(seconds=5)
