"""Whose the engine time is. Pure.

While k requests run on an engine at once, each is given 1/k of the time:

    share of a request = integral over its time on the engine of dt / k(t)

so that the shares of an engine's requests add up to the time in which it had any. A request runs from its dispatch
(arrival + queue) for its time on engines; attempts on other engines are counted where it ended.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
Run = tuple[int, int, K]


def share_time(runs: Sequence[Run[K]]) -> dict[K, int]:
    """`runs` are (start, end, whose) on one engine, in microseconds; shares are rounded to whole ones."""
    given_by = _given_until(runs)
    shares: dict[K, float] = {}
    for start, end, key in runs:
        shares[key] = shares.get(key, 0.0) + given_by[end] - given_by[start]
    return {key: round(share) for key, share in shares.items()}


def _given_until(runs: Sequence[Run[K]]) -> dict[int, float]:
    """By moment: what one request would have been given by then, had it run all the time."""
    edges = sorted([(start, 1) for start, _, _ in runs] + [(end, -1) for _, end, _ in runs])
    given, running, before = 0.0, 0, 0
    found: dict[int, float] = {}
    for moment, change in edges:
        if running:
            given += (moment - before) / running
        running, before = running + change, moment
        found[moment] = given
    return found


def clipped(runs: Iterable[Run[K]], start: int, end: int) -> list[Run[K]]:
    """Their parts between two moments."""
    cut = ((max(start, first), min(end, last), key) for first, last, key in runs)
    return [(first, last, key) for first, last, key in cut if first < last]
