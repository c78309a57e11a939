"""Whether prompts become the tokens that the engine says."""

import pytest

from workers.gateway.kv_events.trust import ENOUGH, PROOF_AFTER_S, Trust

pytestmark = pytest.mark.unit


def checked(cached, expected):
    trust = Trust()
    for name in range(expected):
        trust.expect(name, 0.0)
    trust.check([cached], PROOF_AFTER_S + 1)
    return trust


def test_prompts_that_show_up_are_trusted():
    assert not checked(set(range(ENOUGH)), ENOUGH).is_lost


def test_prompts_that_never_show_up_are_not():
    assert checked(set(), ENOUGH).is_lost


def test_a_few_prove_nothing():
    assert not checked(set(), ENOUGH - 1).is_lost


def test_half_may_be_refused_or_cancelled():
    assert not checked(set(range(ENOUGH // 2)), ENOUGH).is_lost


def test_there_is_time_for_them_to_show_up():
    trust = Trust()
    for name in range(ENOUGH):
        trust.expect(name, 0.0)
    trust.check([set()], PROOF_AFTER_S - 1)
    assert not trust.is_lost
    trust.check([set(range(ENOUGH))], PROOF_AFTER_S + 1)
    assert not trust.is_lost
