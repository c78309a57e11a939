import pytest

from workers.engines.fake.model.kv_blocks import KVBlocks

pytestmark = pytest.mark.unit


def test_taking_more_than_there_is_takes_nothing():
    kv = KVBlocks(3)
    assert kv.take(2)
    assert not kv.take(2)
    assert kv.available == 1


def test_a_published_block_is_shared_and_falls_idle_when_nobody_uses_it():
    kv = KVBlocks(3)
    kv.take(1)
    assert kv.publish([b"a"]) == [b"a"]
    assert kv.admit([b"a"], 0)
    kv.release(0, [b"a"])
    assert kv.used == 1
    kv.release(0, [b"a"])
    assert (kv.used, kv.count_cached([b"a"], 9)) == (0, 1)


def test_a_block_that_is_cached_already_stays_private():
    kv = KVBlocks(3)
    kv.take(2)
    kv.publish([b"a"])
    assert kv.publish([b"a"]) == []
    assert kv.used == 2


def test_what_fell_idle_first_is_evicted_first_and_ends_of_prompts_before_beginnings():
    kv = KVBlocks(3)
    kv.take(3)
    kv.release(0, kv.publish([b"a", b"ab", b"abc"]))
    kv.take(1)
    assert kv.count_cached([b"a", b"ab", b"abc"], 9) == 2


def test_only_leading_blocks_count_as_cached():
    kv = KVBlocks(3)
    kv.take(1)
    kv.publish([b"ab"])
    assert kv.count_cached([b"a", b"ab"], 9) == 0


def test_blocks_that_wake_from_idle_are_not_free_for_others_too():
    kv = KVBlocks(2)
    kv.take(2)
    kv.release(0, kv.publish([b"a", b"ab"]))
    assert not kv.admit([b"a"], 2)
    assert kv.admit([b"a"], 1)
    assert kv.available == 0


def test_without_caching_nothing_is_kept():
    kv = KVBlocks(2, is_caching=False)
    kv.take(1)
    assert kv.publish([b"a"]) == []
    kv.release(1, [])
    assert (kv.used, kv.count_cached([b"a"], 9)) == (0, 0)


def test_the_cache_can_be_forgotten_but_not_what_is_in_use():
    kv = KVBlocks(3)
    kv.take(2)
    used, idle = kv.publish([b"a", b"ab"])
    kv.release(0, [idle])
    kv.forget_idle()
    assert kv.count_cached([used, idle], 9) == 1
