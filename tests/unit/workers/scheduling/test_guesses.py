"""Guesses by the prompt, beside a list of blocks in the order of their use."""

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.scheduling.prefix.guesses import Guesses

pytestmark = pytest.mark.unit


ENDPOINTS = range(3)


class BlockByBlock:
    """The same with a list of all blocks of each endpoint, the least recently used first."""

    def __init__(self):
        self.blocks = {endpoint: OrderedDict() for endpoint in ENDPOINTS}

    def use(self, blocks, endpoint):
        for block in reversed(blocks):
            self.blocks[endpoint][block] = None
            self.blocks[endpoint].move_to_end(block)

    def evict(self, endpoint, keep):
        while len(self.blocks[endpoint]) > keep:
            self.blocks[endpoint].popitem(last=False)

    def forget_endpoint(self, endpoint):
        self.blocks[endpoint].clear()

    def count(self, blocks, endpoint):
        return next((n for n, block in enumerate(blocks) if block not in self.blocks[endpoint]), len(blocks))

    def match(self, blocks):
        levels = {}
        for endpoint in ENDPOINTS:
            count = self.count(blocks, endpoint)
            levels[count] = levels.get(count, 0) | 1 << endpoint
        return sorted(((count, mask) for count, mask in levels.items() if count), reverse=True)


prompts = st.lists(st.integers(0, 1), max_size=6).map(
    lambda path: tuple(int("1" + "".join(map(str, path[: length + 1]))) for length in range(len(path)))
)
endpoints = st.sampled_from(ENDPOINTS)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("use"), prompts, endpoints),
        st.tuples(st.just("evict"), endpoints, st.integers(0, 12)),
        st.tuples(st.just("forget_endpoint"), endpoints),
    ),
    max_size=60,
)


@given(steps, prompts)
def test_of_each_endpoint_the_same_blocks_are_there(history, wanted):
    ours, theirs = Guesses(), BlockByBlock()
    for name, *arguments in history:
        for guesses in (ours, theirs):
            getattr(guesses, name)(*arguments)
        for endpoint in ENDPOINTS:
            assert sorted(ours.blocks_of(endpoint)) == sorted(theirs.blocks[endpoint])
            assert ours.count(wanted, endpoint) == theirs.count(wanted, endpoint)
        assert ours.match(wanted) == theirs.match(wanted)
        assert len(ours) == len(set().union(*theirs.blocks.values()))


def test_memory_is_bounded_by_what_is_kept():
    guesses = Guesses()
    for number in range(1000):
        for endpoint in ENDPOINTS:
            guesses.use(tuple(range(1, 2 + number % 7)), endpoint)
            guesses.use((100 + number, 101 + number), endpoint)
            guesses.evict(endpoint, 20)
    assert len(guesses) <= 60
    assert len(guesses._tree.stems()) <= 60
    assert all(len(order.ends) <= 20 for order in guesses._orders.values())


def test_of_an_endpoint_that_is_gone_nothing_is_kept():
    guesses = Guesses()
    guesses.use((1, 2), 0)
    guesses.use((1, 3), 1)
    guesses.forget_endpoint(0)
    assert guesses.match((1, 2)) == [(1, 2)]
    assert list(guesses._orders) == [1]


@given(steps, prompts.filter(bool))
def test_what_is_found_changes_only_with_the_count_of_changes_like_it(history, wanted):
    guesses = Guesses()
    seen = {guesses.changes_like(wanted): guesses.match(wanted)}
    for name, *arguments in history:
        getattr(guesses, name)(*arguments)
        changes = guesses.changes_like(wanted)
        assert changes >= max(seen)
        assert seen.setdefault(changes, guesses.match(wanted)) == guesses.match(wanted)
