import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.scheduling.prefix.index import PrefixIndex

pytestmark = pytest.mark.unit


def chain(*names):
    """Block numbers that stand for everything before them, as prefix hashes do."""
    return tuple(int.from_bytes("/".join(names[: end + 1]).encode(), "big") for end in range(len(names)))


prompts = st.lists(st.sampled_from("abc"), min_size=1, max_size=8).map(lambda names: chain(*names))


@given(st.lists(st.tuples(prompts, st.integers(0, 3)), max_size=30), prompts)
def test_the_longest_match_of_each_endpoint_is_found(history, wanted):
    index = PrefixIndex()
    cached = {endpoint: set() for endpoint in range(4)}
    for blocks, endpoint in history:
        index.record(blocks, endpoint, 10_000)
        cached[endpoint].update(blocks)
    longest = 0
    for endpoint, blocks in cached.items():
        count = next((n for n, block in enumerate(wanted) if block not in blocks), len(wanted))
        assert index.count(wanted, endpoint) == count
        longest = max(longest, count)
    levels = index.match(wanted)
    assert (levels[0][0] if levels else 0) == longest
    for count, mask in levels:
        for endpoint in range(4):
            if mask >> endpoint & 1:
                assert index.count(wanted, endpoint) == count


def test_the_ends_of_the_least_recently_used_prompts_are_forgotten_first():
    index = PrefixIndex()
    index.record(chain("a", "b", "c"), 0, 4)
    index.record(chain("x", "y"), 0, 4)
    assert index.count(chain("a", "b", "c"), 0) == 2
    assert index.count(chain("x", "y"), 0) == 2


def test_memory_is_bounded():
    index = PrefixIndex()
    for number in range(1000):
        index.record(chain(str(number), "end"), number % 3, 10)
    assert len(index) <= 30


def test_a_lost_endpoint_leaves_nothing_behind():
    index = PrefixIndex()
    index.record(chain("a", "b"), 0, 10)
    index.forget_endpoint(0)
    assert len(index) == 0
    assert index.match(chain("a", "b")) == []
