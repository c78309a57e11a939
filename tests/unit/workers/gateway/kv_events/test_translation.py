"""Of one version: text blocks by the tokens they end at, and what an engine's events so change."""

import pytest

from workers.engines.vllm.cache_events import AllBlocksCleared, BlockRemoved, BlockStored
from workers.gateway.kv_events import translation
from workers.gateway.kv_events.cached import CachedBlocks, name_blocks, root_name
from workers.gateway.kv_events.translation import Translation
from workers.scheduling.interface import KVChange
from workers.scheduling.prefix.index import PrefixIndex

pytestmark = pytest.mark.unit

TEXT = (901, 902, 903)
TOKENS = list(range(24))


def names(tokens=TOKENS):
    return list(name_blocks(root_name(None, None), tokens, 4))


def stored(hashes, parent=None, tokens=TOKENS):
    return BlockStored(block_hashes=hashes, parent_block_hash=parent, token_ids=tokens, block_size=4)


class World:
    """One engine, number 0 of the index."""

    def __init__(self):
        self.translation = Translation()
        self.translation.expect_size(4)
        self.index = PrefixIndex()
        self.cached = CachedBlocks()

    def begin(self):
        self.index.changed(0, self.translation.begin("e", self.cached))

    def learn(self, blocks=TEXT, chain=None):
        two_each = (chain or names())[1::2]
        for changes in self.translation.learn(blocks, two_each).values():
            self.index.changed(0, changes)

    def happens(self, *events):
        self.index.changed(0, self.translation.apply("e", events))

    def claims(self, blocks=TEXT):
        return self.index.count(blocks, 0)


@pytest.fixture
def world():
    world = World()
    world.begin()
    return world


def test_a_prompt_learned_before_it_is_cached_is_claimed_when_it_is(world):
    world.learn()
    assert world.claims() == 0
    world.happens(stored([1, 2, 3, 4], tokens=TOKENS[:16]))
    assert world.claims() == 2
    world.happens(stored([5, 6], parent=4, tokens=TOKENS[16:]))
    assert world.claims() == 3


def test_a_prompt_learned_after_it_is_cached_is_claimed_at_once(world):
    world.happens(stored([1, 2, 3, 4, 5, 6]))
    world.learn()
    assert world.claims() == 3


def test_what_is_evicted_is_not_claimed_any_more(world):
    world.learn()
    world.happens(stored([1, 2, 3, 4, 5, 6]))
    world.happens(BlockRemoved(block_hashes=[6, 5, 4]))
    assert world.claims() == 1
    world.happens(AllBlocksCleared())
    assert world.claims() == 0


def test_cleared_and_stored_again_in_one_batch_is_claimed(world):
    world.learn()
    world.happens(stored([1, 2, 3, 4, 5, 6]), AllBlocksCleared(), stored([1, 2], tokens=TOKENS[:8]))
    assert world.claims() == 1


def test_our_guess_ends_with_what_is_learned(world):
    world.index.record(TEXT, 0, 100, told_blocks=0)
    assert world.claims() == 3
    world.happens(stored([1, 2], tokens=TOKENS[:8]))
    world.learn()
    assert world.claims() == 1


def test_prompts_that_part_share_what_they_have_in_common(world):
    other = (*TOKENS[:16], *range(500, 508))
    world.learn()
    world.learn((901, 902, 977), names(other))
    world.happens(stored([1, 2, 3, 4, 5, 6]))
    assert world.claims((901, 902, 977)) == 2
    assert world.translation.known((901, 902, 977, 978)) == 3


def test_an_engine_that_is_told_of_later_has_what_it_has():
    world = World()
    world.learn()
    list(world.cached.apply(stored([1, 2, 3, 4, 5, 6])))
    world.begin()
    assert world.claims() == 3


def test_when_the_engine_says_no_more_its_last_word_is_our_guess(world):
    world.learn()
    world.happens(stored([1, 2, 3, 4, 5, 6]))
    world.index.changed(0, world.translation.end("e"))
    assert world.claims() == 3
    assert not world.index.is_exact(0)
    assert world.translation.end("e") == []


def test_the_longest_unused_texts_are_forgotten_and_not_claimed(world, monkeypatch):
    monkeypatch.setattr(translation, "MAX_TEXT_BLOCKS", 4)
    world.learn()
    world.happens(stored([1, 2, 3, 4, 5, 6]))
    other = list(range(100, 124))
    world.learn((1, 2, 3), names(other))
    assert world.translation.known(TEXT) == world.claims() == 1
    assert len(world.translation) == 4


def test_blocks_of_another_size_than_the_first_are_not_understood():
    translation = Translation()
    translation.expect_size(16)
    assert translation.agree(0)
    assert translation.agree(4), "events know better than what was expected"
    assert not translation.agree(16)


def test_what_was_learned_for_another_size_is_forgotten():
    world = World()
    world.learn()
    assert world.translation.agree(8)
    assert world.translation.known(TEXT) == 0


def test_an_engine_nobody_asked_about_changes_nothing():
    assert Translation().learn(TEXT, names()[1::2]) == {}
    assert KVChange().stored == ()
