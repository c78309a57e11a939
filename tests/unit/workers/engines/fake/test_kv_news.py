"""What the fake engine's cache says of itself, and how that becomes events."""

import pytest

from workers.engines.fake.kv_events import BlockTokens
from workers.engines.fake.model.kv_blocks import KVBlocks
from workers.engines.vllm.cache_events import BlockStored

pytestmark = pytest.mark.unit

CHAIN = (b"one-hash", b"two-hash", b"three-h.")


def cache(total=4):
    kv = KVBlocks(total)
    kv.news = []
    return kv


def cached(kv, hashes=CHAIN):
    kv.take(len(hashes))
    kv.publish(hashes)
    kv.release(0, hashes)


def test_what_is_cached_is_news_once():
    kv = cache()
    cached(kv)
    kv.admit(CHAIN, 0)
    kv.release(0, CHAIN)
    assert kv.news == [("stored", block) for block in CHAIN]


def test_what_gives_way_is_news_from_the_end_of_its_prompt():
    kv = cache()
    cached(kv)
    kv.news.clear()
    assert kv.take(3)
    assert kv.news == [("removed", CHAIN[2]), ("removed", CHAIN[1])]


def test_a_cache_that_nobody_uses_is_cleared_at_once():
    kv = cache()
    cached(kv)
    kv.news.clear()
    kv.forget_idle()
    assert kv.news == [("cleared", b"")]


def test_of_a_cache_in_use_what_is_idle_goes():
    kv = cache()
    cached(kv)
    kv.admit(CHAIN[:1], 0)
    kv.news.clear()
    kv.forget_idle()
    assert kv.news == [("removed", CHAIN[2]), ("removed", CHAIN[1])]
    assert kv.count_cached(CHAIN, 3) == 1


def test_nobody_is_told_where_nobody_listens():
    kv = KVBlocks(4)
    cached(kv)
    kv.forget_idle()
    assert kv.news is None


def test_an_event_has_the_tokens_of_its_block_and_the_one_before():
    tokens = BlockTokens(2)
    tokens.note(CHAIN[:2], [10, 11, 12, 13, 14], "salt")
    first, second = (tokens.stored_event(block) for block in CHAIN[:2])
    assert (first["parent_block_hash"], first["token_ids"], first["extra_keys"]) == (None, (10, 11), [["salt"]])
    assert (second["parent_block_hash"], second["token_ids"], second["extra_keys"]) == (
        first["block_hashes"][0],
        (12, 13),
        [None],
    )
    assert tokens.stored_event(CHAIN[2]) is None
    assert set(BlockStored.__struct_fields__) - {"locality"} <= set(first)
