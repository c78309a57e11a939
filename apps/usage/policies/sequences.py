"""Which numbers of a source have come: ranges [first, last + 1), ascending and apart. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

Ranges = list[tuple[int, int]]
FIRST_SEQUENCE = 1


def holds(ranges: Sequence[tuple[int, int]], number: int) -> bool:
    if not ranges or number >= ranges[-1][1]:
        return False
    place = bisect_right(ranges, (number, number + 1))
    candidates = [*ranges[max(place - 1, 0) : place + 1]]
    return any(first <= number < end for first, end in candidates)


def ranges_of(numbers: Iterable[int]) -> Ranges:
    ranges: Ranges = []
    for number in sorted(numbers):
        if ranges and number <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], number + 1))
        else:
            ranges.append((number, number + 1))
    return ranges


def gaps_in(ranges: Sequence[tuple[int, int]]) -> Ranges:
    """What is missing below the highest number that came; what comes after it is not missing, it is not here yet."""
    gaps, expected = [], FIRST_SEQUENCE
    for first, end in ranges:
        if first > expected:
            gaps.append((expected, first))
        expected = max(expected, end)
    return gaps


def count_of(ranges: Sequence[tuple[int, int]]) -> int:
    return sum(end - first for first, end in ranges)
