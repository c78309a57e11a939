"""Guesses by the prompt, beside a list of blocks in the order of their use."""

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.scheduling.prefix import guesses as module
from workers.scheduling.prefix.guesses import Guesses

pytestmark = pytest.mark.unit


class BlockByBlock:
    """The same with a list of all blocks, the least recently used first."""

    def __init__(self):
        self.blocks = OrderedDict()

    def use(self, blocks):
        for block in reversed(blocks):
            self.blocks[block] = None
            self.blocks.move_to_end(block)

    def drop(self, block):
        self.blocks.pop(block, None)

    def evict(self, keep):
        evicted = []
        while len(self.blocks) > keep:
            evicted.append(self.blocks.popitem(last=False)[0])
        return evicted


prompts = st.lists(st.integers(0, 1), min_size=1, max_size=6).map(
    lambda path: tuple(int("1" + "".join(map(str, path[: length + 1]))) for length in range(len(path)))
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("use"), prompts),
        st.tuples(st.just("drop"), st.integers(10, 130)),
        st.tuples(st.just("evict"), st.integers(0, 12)),
    ),
    max_size=40,
)


@given(steps, st.sampled_from([0, 3, 100_000]))
def test_the_same_blocks_go_in_the_same_order(history, least_swept):
    module.LEAST_SWEPT_BLOCKS, ours, theirs = least_swept, Guesses(), BlockByBlock()
    for name, argument in history:
        if name == "use":
            assert set(ours.unknown(argument)) == set(argument) - set(theirs.blocks)
        assert getattr(ours, name)(argument) == getattr(theirs, name)(argument)
        assert sorted(ours.blocks()) == sorted(theirs.blocks)
        assert len(ours) == len(theirs.blocks)


def test_a_block_that_was_dropped_from_the_middle_is_unknown_and_what_follows_it_is_not():
    guesses = Guesses()
    guesses.use((1, 2, 3))
    guesses.drop(2)
    assert guesses.unknown((1, 2, 3, 4)) == (2, 4)


def test_memory_is_bounded_by_what_is_kept(monkeypatch):
    monkeypatch.setattr(module, "LEAST_SWEPT_BLOCKS", 100)
    guesses = Guesses()
    for _ in range(1000):
        guesses.use((1, 2, 3))
    assert guesses._noted_blocks <= 100 + 4 * 3
