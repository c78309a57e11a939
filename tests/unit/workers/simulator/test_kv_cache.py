import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.simulator.kv_cache import KVCache

pytestmark = pytest.mark.unit


def run_prompt(cache, units, tail_blocks=1):
    """A sequence from its admission to its end; returns the units it found cached, or None without room."""
    run, hits = cache.match(units, len(units))
    cache.pin(run)
    fresh = (len(units) - hits) * cache.unit_blocks + tail_blocks
    if not cache.take(fresh):
        cache.unpin(run)
        return None
    run = cache.publish(run, units, hits)
    cache.unpin(run)
    cache.private -= tail_blocks
    return hits


def test_a_prompt_that_was_run_is_cached_for_the_next():
    cache = KVCache(100, unit_blocks=2)
    assert run_prompt(cache, (1, 2, 3)) == 0
    assert run_prompt(cache, (1, 2, 3)) == 3
    assert run_prompt(cache, (1, 2, 9)) == 2


def test_the_ends_of_the_least_recently_used_go_first():
    cache = KVCache(8, unit_blocks=1)
    run_prompt(cache, (1, 2, 3))
    run_prompt(cache, (7, 8, 9))
    run_prompt(cache, (4, 5))
    assert cache.match((7, 8, 9), 3)[1] == 3
    assert cache.match((1, 2, 3), 3)[1] < 3


def test_what_is_in_use_is_not_evicted():
    cache = KVCache(4, unit_blocks=1)
    run_prompt(cache, (1, 2))
    run, hits = cache.match((1, 2), 2)
    cache.pin(run)
    assert hits == 2
    assert not cache.take(3)
    assert cache.take(2)


prompts = st.lists(st.sampled_from("ab"), min_size=1, max_size=6).map(
    lambda names: tuple(int("1" + "".join(str("ab".index(n)) for n in names[: i + 1])) for i in range(len(names)))
)


@given(st.lists(prompts, max_size=40), st.integers(3, 12))
def test_blocks_are_never_lost_or_made(history, total):
    cache = KVCache(total, unit_blocks=1)
    for units in history:
        run_prompt(cache, units)
        assert cache.private == cache.pinned == 0
        assert 0 <= cache._idle <= total
    assert cache.take(total)
    assert cache._idle == 0
    assert not cache.take(1)
