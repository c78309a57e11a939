"""What charts and bars are drawn from: columns of a day, phases of a request, shares of a route."""

from datetime import date
from decimal import Decimal

import pytest

from apps.console.policies.columns import REST, stack_by_day
from apps.console.policies.phases import phases_of
from apps.console.policies.split import changes_between, shares_of

pytestmark = pytest.mark.unit

MONDAY, TUESDAY = date(2026, 11, 23), date(2026, 11, 24)


def test_the_highest_day_fills_the_chart_and_the_others_are_in_proportion():
    chart = stack_by_day([MONDAY, TUESDAY], {(MONDAY, "chat"): Decimal(4), (TUESDAY, "chat"): Decimal(1)})
    assert [column.blocks[0].height for column in chart.columns] == [100.0, 25.0]
    assert chart.top == 4


def test_models_are_stacked_the_dearest_at_the_bottom():
    values = {(MONDAY, "embed"): Decimal(1), (MONDAY, "chat"): Decimal(3)}
    (column,) = stack_by_day([MONDAY], values).columns
    assert [(block.name, block.y, block.height) for block in column.blocks] == [
        ("chat", 25.0, 75.0),
        ("embed", 0.0, 25.0),
    ]


def test_more_models_than_colours_share_the_last_one():
    values = {(MONDAY, name): Decimal(value) for name, value in (("a", 9), ("b", 5), ("c", 2), ("d", 1))}
    chart = stack_by_day([MONDAY], values)
    assert chart.names == ["a", "b", REST]
    assert chart.columns[0].blocks[2].value == 3
    assert chart.columns[0].total == 17


def test_what_cost_nothing_has_no_series():
    values = {(MONDAY, "chat"): Decimal(3), (MONDAY, ""): Decimal(0)}
    assert stack_by_day([MONDAY], values).names == ["chat"]


def test_days_without_cost_are_empty_columns_not_errors():
    chart = stack_by_day([MONDAY, TUESDAY], {})
    assert [column.blocks for column in chart.columns] == [[], []]


def test_the_phases_of_a_request_add_up_to_its_time():
    phases = phases_of(queue_ms=20, ttft_ms=120, total_ms=1000)
    assert [(phase.name, phase.ms) for phase in phases] == [
        ("waiting in the queue", 20),
        ("until the first token", 100),
        ("until the last", 880),
    ]
    assert sum(phase.percent for phase in phases) == pytest.approx(100)


def test_a_request_without_an_answer_has_no_first_token():
    assert [phase.name for phase in phases_of(queue_ms=None, ttft_ms=None, total_ms=150)] == [
        "waiting in the queue",
        "until it ended",
    ]


def test_a_request_that_took_no_time_divides_nothing_by_zero():
    assert [phase.percent for phase in phases_of(queue_ms=0, ttft_ms=0, total_ms=0)] == [0, 0, 0]


def test_shares_are_relative_to_the_sum():
    shares = shares_of([90, 10])
    assert [(share.share, share.offset) for share in shares] == [(0.9, 0.0), (0.1, 0.9)]
    assert [share.share for share in shares_of([0, 0])] == [0, 0]


def test_only_what_changes_is_listed():
    names = {"a": "chat:v1", "b": "chat:v2"}
    assert changes_between(names, {"a": 90, "b": 10}, {"a": 9, "b": 1}) == []
    assert changes_between(names, {"a": 90, "b": 10}, {"a": 2, "b": 1}) == [
        {"label": "chat:v1", "was": "90 %", "becomes": "66.67 %"},
        {"label": "chat:v2", "was": "10 %", "becomes": "33.33 %"},
    ]
