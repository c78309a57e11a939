from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.usage.policies.sequences import count_of, gaps_in, holds, ranges_of

pytestmark = pytest.mark.unit

NUMBERS = st.sets(st.integers(1, 60))


@given(NUMBERS)
def test_ranges_hold_what_came_and_nothing_else(numbers):
    ranges = ranges_of(numbers)
    assert {number for number in range(62) if holds(ranges, number)} == numbers
    assert count_of(ranges) == len(numbers)
    assert all(first[1] < second[0] for first, second in pairwise(ranges))


@given(NUMBERS)
def test_what_came_and_what_is_missing_make_up_all_numbers_to_the_highest(numbers):
    missing = {number for first, end in gaps_in(ranges_of(numbers)) for number in range(first, end)}
    assert missing | numbers == set(range(1, max(numbers, default=0) + 1))
    assert not missing & numbers


def test_what_is_not_here_yet_is_not_missing():
    assert gaps_in([(1, 10)]) == []
    assert gaps_in([(3, 5), (9, 10)]) == [(1, 3), (5, 9)]
