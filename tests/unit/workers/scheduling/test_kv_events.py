"""The prefix index as the engine's own events tell it."""

import pytest

from tests.unit.workers.scheduling.bench import Bench
from workers.scheduling.interface import KVChange
from workers.scheduling.prefix.index import PrefixIndex

pytestmark = pytest.mark.unit

CHAIN = (1, 2, 3, 4)


def an_index(*changes):
    index = PrefixIndex()
    index.changed(0, list(changes))
    return index


def test_what_was_stored_is_found():
    index = an_index(KVChange(stored=CHAIN))
    assert index.count(CHAIN, 0) == 4
    assert index.match((1, 2, 9)) == [(2, 1)]


def test_what_was_removed_is_not():
    index = an_index(KVChange(stored=CHAIN), KVChange(removed=(4, 3)))
    assert index.count(CHAIN, 0) == 2


def test_a_hole_ends_the_match_as_it_does_in_the_engine():
    index = an_index(KVChange(stored=CHAIN), KVChange(removed=(2,)))
    assert index.count(CHAIN, 0) == 1
    assert index.match(CHAIN) == [(1, 1)]
    index.changed(0, [KVChange(stored=(2,), parent=1)])
    assert index.count(CHAIN, 0) == 4


def test_of_two_prompts_with_a_common_beginning_one_may_go():
    index = an_index(KVChange(stored=(1, 2)), KVChange(stored=(3,), parent=1), KVChange(removed=(2,)))
    assert index.count((1, 2), 0) == 1
    assert index.count((1, 3), 0) == 2


def test_what_was_guessed_beside_the_events_goes_the_least_recently_used_first():
    index = an_index(KVChange(stored=(99,)))
    for guessed in ((11, 12), (21, 22), (11, 12)):
        index.record(guessed, 0, 4, told_blocks=0)
    index.record((31, 32), 0, 4, told_blocks=0)
    assert [index.count(guessed, 0) for guessed in ((11, 12), (21, 22), (31, 32))] == [2, 0, 2]


def test_what_the_engine_said_is_no_guess_though_it_comes_after_what_it_was_asked_about():
    index = an_index(KVChange(stored=CHAIN))
    index.record(CHAIN, 0, 0, told_blocks=2)
    assert index.count(CHAIN, 0) == 4


def test_a_hole_closes_when_what_followed_is_gone_too():
    index = an_index(KVChange(stored=CHAIN), KVChange(removed=(2,)), KVChange(removed=(3, 4)))
    assert index._exact.holed == 0
    assert index.count(CHAIN, 0) == 1


def test_everything_can_be_cleared_at_once():
    index = an_index(KVChange(stored=CHAIN), KVChange(is_cleared=True))
    assert index.count(CHAIN, 0) == 0
    assert len(index) == 0
    assert index.is_exact(0)


def test_events_of_unknown_blocks_and_repeated_ones_change_nothing():
    index = an_index(KVChange(stored=CHAIN), KVChange(stored=CHAIN), KVChange(removed=(77,)))
    assert index.count(CHAIN, 0) == 4


def test_the_engines_word_replaces_our_guess():
    index = PrefixIndex()
    index.record(CHAIN, 0, 100)
    index.changed(0, [KVChange(stored=(1,))])
    index.record(CHAIN, 0, 100)
    assert index.count(CHAIN, 0) == 1


def test_beside_the_engines_words_we_guess_what_they_are_not_about():
    index = an_index(KVChange(stored=(1, 2)))
    index.record(CHAIN, 0, 100, told_blocks=2)
    assert index.count(CHAIN, 0) == 4
    index.changed(0, [KVChange(removed=(2,))])
    assert index.count(CHAIN, 0) == 1, "the guess follows a hole"
    index.changed(0, [KVChange(stored=(2, 3), parent=1), KVChange(removed=(4,))])
    assert index.count(CHAIN, 0) == 3


def test_a_guess_that_follows_what_the_engine_has_not_is_worth_nothing():
    index = an_index(KVChange(stored=(1,)))
    index.record(CHAIN, 0, 100, told_blocks=2)
    assert index.count(CHAIN, 0) == 1
    assert index.match(CHAIN) == [(1, 1)]
    index.changed(0, [KVChange(stored=(2,), parent=1)])
    assert index.count(CHAIN, 0) == 4


def test_guesses_beside_the_engines_words_are_bounded():
    index = an_index(KVChange(stored=(1, 2)))
    index.record((11, 12, 13), 0, 2, told_blocks=0)
    index.record((21, 22), 0, 2, told_blocks=0)
    assert index.count((21, 22), 0) == 2
    assert index.count((11, 12, 13), 0) == 0
    assert index.count((1, 2), 0) == 2
    assert len(index) == 4


def test_when_the_engine_says_no_more_its_last_word_is_our_guess():
    index = an_index(KVChange(stored=CHAIN), KVChange(stored=(5, 6)), KVChange(removed=(5,)), KVChange(is_last=True))
    assert not index.is_exact(0)
    assert index.count(CHAIN, 0) == 4
    assert index.match((5, 6)) == [], "what follows a hole is not kept"
    index.record((7, 8), 0, 3)
    assert index.count((7, 8), 0) == 2
    assert len(index) == 3


def test_an_engine_that_never_spoke_cannot_stop():
    index = PrefixIndex()
    index.record(CHAIN, 0, 100)
    index.changed(0, [KVChange(is_last=True)])
    assert index.count(CHAIN, 0) == 4


def test_an_endpoint_that_is_lost_takes_words_and_guesses_with_it():
    index = an_index(KVChange(stored=(1, 2)))
    index.record(CHAIN, 0, 100, told_blocks=2)
    index.forget_endpoint(0)
    assert len(index) == 0
    assert index.count(CHAIN, 0) == 0


def test_engines_that_say_nothing_keep_the_guess():
    index = PrefixIndex()
    index.record(CHAIN, 1, 100)
    index.changed(0, [KVChange(stored=CHAIN), KVChange(removed=(2,))])
    assert index.match(CHAIN) == [(4, 2), (1, 1)]


def test_requests_go_where_the_engine_says_the_prefix_is():
    bench = Bench()
    for name in ("e1", "e2", "e3"):
        bench.endpoint(name)
    blocks = tuple(range(1, 41))
    bench.note(bench.scheduler.prefixes_changed("e3", [KVChange(stored=blocks)], bench.now))
    for _ in range(3):
        number = bench.arrive(prompt_tokens=41 * 128, prefix_blocks=blocks, block_tokens=128)
        assert bench.sent[number] == "e3"
        bench.after(1.0)
        bench.finish(number)
    bench.note(bench.scheduler.prefixes_changed("e3", [KVChange(is_cleared=True)], bench.now))
    assert bench.sent[bench.arrive(prompt_tokens=41 * 128, prefix_blocks=blocks, block_tokens=128)] != "e3"
