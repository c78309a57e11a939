"""What one engine has cached, by its events, under names that all engines of a version share."""

import pytest

from workers.engines.vllm.cache_events import AllBlocksCleared, BlockRemoved, BlockStored
from workers.gateway.kv_events.cached import CachedBlocks, name_blocks, root_name

pytestmark = pytest.mark.unit

TOKENS = list(range(100, 112))


def stored(hashes, parent=None, tokens=TOKENS, **fields):
    return BlockStored(block_hashes=hashes, parent_block_hash=parent, token_ids=tokens, block_size=4, **fields)


def applied(*events):
    cached = CachedBlocks()
    for event in events:
        list(cached.apply(event))
    return cached


def names(tokens=TOKENS, adapter=None, extra=None):
    return list(name_blocks(root_name(adapter, extra), tokens, 4))


def has(cached, expected):
    return [name in cached for name in expected]


def test_a_prompt_is_found_by_its_tokens_whatever_the_engine_calls_its_blocks():
    for hashes in ([1, 2, 3], [b"x", b"y", b"z"]):
        assert has(applied(stored(hashes)), names()) == [True, True, True]
    assert has(applied(stored([1, 2, 3])), names(TOKENS[1:])) == [False, False]


def test_blocks_follow_those_that_came_before():
    cached = applied(stored([1], tokens=TOKENS[:4]), stored([2, 3], parent=1, tokens=TOKENS[4:]))
    assert has(cached, names()) == [True, True, True]


def test_what_follows_an_unknown_block_is_not_known_either():
    assert len(applied(stored([2, 3], parent=77, tokens=TOKENS[4:]))) == 0


def test_removed_blocks_are_gone_and_unknown_ones_change_nothing():
    cached = applied(stored([1, 2, 3]), BlockRemoved(block_hashes=[3, 99]))
    assert has(cached, names()) == [True, True, False]


def test_a_block_that_two_requests_computed_is_there_until_both_are_gone():
    cached = applied(stored([1, 2, 3]), stored([1, 2, 3]), BlockRemoved(block_hashes=[3, 2]))
    assert has(cached, names()) == [True, True, True]
    list(cached.apply(BlockRemoved(block_hashes=[3, 2])))
    assert has(cached, names()) == [True, False, False]


def test_changes_are_told_once():
    cached = CachedBlocks()
    first, second, third = names()
    assert list(cached.apply(stored([1, 2, 3]))) == [(True, first), (True, second), (True, third)]
    assert list(cached.apply(stored([1, 2, 3]))) == []
    assert list(cached.apply(AllBlocksCleared())) == [None]
    assert len(cached) == 0


@pytest.mark.parametrize(
    ("event", "adapter", "extra"),
    [
        ({"extra_keys": [["salt"], None, None]}, None, ["salt"]),
        ({"lora_name": "pirate", "extra_keys": [["pirate"], ["pirate"], ["pirate"]]}, "pirate", None),
        ({"lora_name": "pirate", "extra_keys": [["pirate", "salt"], ["pirate"], ["pirate"]]}, "pirate", ["salt"]),
    ],
)
def test_an_adapter_and_a_salt_keep_equal_tokens_apart(event, adapter, extra):
    cached = applied(stored([1, 2, 3], **event))
    assert has(cached, names(adapter=adapter, extra=extra)) == [True, True, True]
    assert has(cached, names()) == [False, False, False]


def test_an_image_makes_what_follows_it_another_prompt():
    cached = applied(stored([1, 2, 3], extra_keys=[None, [["image", 4]], None]))
    assert has(cached, names()) == [True, False, False]
