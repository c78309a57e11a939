from datetime import timedelta
from decimal import Decimal

import pytest

from apps.console.policies.measures import ago, measure

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (412.4, "ms", "412 ms"),
        (1530, "ms", "1.53 s"),
        (0, "count", "0"),
        (737_013, "tokens", "737,013 tokens"),
        (12_345_678, "tokens", "12.3 M tokens"),
        (0.328, "ratio", "32.8 %"),
        (1.0, "ratio", "100 %"),
        (9.98, "requests_per_s", "9.98 req/s"),
        (98 * 2**30, "bytes", "98.0 GiB"),
        (1, "requests", "1 request"),
        (0, "tokens", "0 tokens"),
        (Decimal(0), "usd", "$0.00"),
        (Decimal("0.01"), "price", "$0.01"),
        (Decimal("1234.5"), "usd", "$1,234.50"),
        (Decimal("0.0954123"), "usd", "$0.0954"),
        (Decimal("-0.0427"), "usd", "-$0.0427"),
        (Decimal("-1234.5"), "usd", "-$1,234.50"),
        (Decimal("0.00000548"), "usd", "$0.00000548"),
        (12_345_678, "whole", "12,345,678"),
        (Decimal("1.500001000000"), "price", "$1.500001"),
        (Decimal("0.000001000003"), "price", "$0.000001000003"),
        (Decimal("1.5E-7"), "price", "$0.00000015"),
        (Decimal(1234), "price", "$1,234.00"),
        (Decimal("-0.0950005"), "billed", "-$0.095000"),
    ],
)
def test_a_figure_has_the_digits_that_its_kind_needs_and_its_unit(value, unit, shown):
    assert str(measure(value, unit)) == shown


def test_what_is_rounded_away_is_there_on_hover():
    assert measure(Decimal("0.000000000001"), "usd").exact == "$0.000000000001"
    assert measure(12_345_678, "tokens").exact == "12,345,678 tokens"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(2, "just now"), (42, "42 s ago"), (180, "3 min ago"), (7300, "2 h ago"), (-86_400 * 7, "in 7 d")],
)
def test_an_age_is_said_in_its_largest_unit(seconds, said):
    assert ago(timedelta(seconds=seconds)) == said
