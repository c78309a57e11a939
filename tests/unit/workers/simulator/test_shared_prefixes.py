"""What is guessed of prompts from how much of each was cached."""

import pytest

from workers.simulator.experiments import RECORDS, Experiment, RecordedRequest, run
from workers.simulator.workloads.shared_prefixes import UNIT_TOKENS, SharedPrefixes

pytestmark = pytest.mark.unit


def test_what_was_cached_is_the_beginning_of_the_last_prompt_of_the_group():
    prefixes = SharedPrefixes()
    first = prefixes.units_of("acme", "chat-1", 10 * UNIT_TOKENS, 0)
    prefixes.units_of("acme", "chat-2", 20 * UNIT_TOKENS, 0)
    second = prefixes.units_of("acme", "chat-1", 12 * UNIT_TOKENS, 10 * UNIT_TOKENS)
    assert second[:10] == first
    assert len(second) == len(set(second)) == 12


def test_a_group_without_so_long_a_prompt_shares_with_the_rest_of_its_tenant():
    prefixes = SharedPrefixes()
    long = prefixes.units_of("acme", "chat-1", 10 * UNIT_TOKENS, 0)
    prefixes.units_of("acme", "chat-2", 2 * UNIT_TOKENS, 0)
    assert prefixes.units_of("acme", "chat-2", 8 * UNIT_TOKENS, 5 * UNIT_TOKENS)[:5] == long[:5]


def test_tenants_share_nothing_whatever_the_records_say():
    prefixes = SharedPrefixes()
    theirs = prefixes.units_of("acme", "same", 10 * UNIT_TOKENS, 0)
    ours = prefixes.units_of("other", "same", 10 * UNIT_TOKENS, 10 * UNIT_TOKENS)
    assert not set(theirs) & set(ours)


def test_more_cached_than_was_asked_is_all_of_the_prompt():
    prefixes = SharedPrefixes()
    first = prefixes.units_of("acme", "", 4 * UNIT_TOKENS, 0)
    assert prefixes.units_of("acme", "", 3 * UNIT_TOKENS, 99 * UNIT_TOKENS) == first[:3]


def test_a_replayed_conversation_hits_what_it_hit_that_day():
    turns = tuple(
        RecordedRequest(
            at_s=5.0 * turn, prompt_tokens=1280 * (turn + 1), cached_tokens=1280 * turn, output_tokens=5, group="chat"
        )
        for turn in range(6)
    )
    (summary,) = run(Experiment(trace=RECORDS, requests=turns, replicas=2, policies=("tokenyard",)), lambda *_: None)
    recorded = sum(turn.cached_tokens for turn in turns) / sum(turn.prompt_tokens for turn in turns)
    assert summary.scores.hit_rate == pytest.approx(recorded, abs=0.01)
