"""Guesses by the prompt, beside a list of blocks in the order of their use."""

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.scheduling.prefix.guesses import Guesses

pytestmark = pytest.mark.unit


class BlockByBlock:
    """The same with a list of all blocks, the least recently used first."""

    def __init__(self):
        self.blocks = OrderedDict()

    def use(self, blocks):
        new = tuple(block for block in blocks if block not in self.blocks)
        for block in reversed(blocks):
            self.blocks[block] = None
            self.blocks.move_to_end(block)
        return new

    def evict(self, keep):
        evicted = []
        while len(self.blocks) > keep:
            evicted.append(self.blocks.popitem(last=False)[0])
        return evicted


prompts = st.lists(st.integers(0, 1), max_size=6).map(
    lambda path: tuple(int("1" + "".join(map(str, path[: length + 1]))) for length in range(len(path)))
)
steps = st.lists(
    st.one_of(st.tuples(st.just("use"), prompts), st.tuples(st.just("evict"), st.integers(0, 12))), max_size=60
)


@given(steps)
def test_the_same_blocks_go_in_the_same_order(history):
    ours, theirs = Guesses(), BlockByBlock()
    for name, argument in history:
        gone = theirs.evict(argument) if name == "evict" else None
        if gone is None:
            assert ours.use(argument) == theirs.use(argument)
        else:
            assert [block for run in ours.evict(argument) for block in reversed(run)] == gone
        assert sorted(ours.blocks()) == sorted(theirs.blocks)
        assert len(ours) == len(theirs.blocks)


def test_memory_is_bounded_by_what_is_kept():
    guesses = Guesses()
    for number in range(1000):
        guesses.use(tuple(range(1, 2 + number % 7)))
        guesses.use((100 + number, 101 + number))
        guesses.evict(20)
    assert len(guesses._tree.stems()) <= 20
    assert len(guesses._last_stems) <= 20
