"""What went wrong in rate limiters and in others' budgets, rebuilt: each case names the report it comes from."""

import pytest

from tests.support.limits_world import World, rule
from workers.contracts.snapshot import Price
from workers.gateway.limits.refusals import error_of

pytestmark = pytest.mark.unit

BOTH = ("g1", "g2")


def world_of(kind, amount, **changes):
    world = World([rule(kind, amount, **changes)], gateways=2)
    world.turns(0.2)
    return world


def use(world, count, **wants):
    """So many that come one after the other, and are settled as they were reserved."""
    for number in range(count):
        asker = world.ask(BOTH[number % 2], **wants)
        assert world.outcome(asker)
        world.settle(asker, tokens=wants.get("output_tokens", 0))
    world.turns(0.2)


def retry_ms(asker):
    assert asker.shortfall is not None
    return asker.shortfall.claim.account.told.retry_ms


def test_requests_that_were_refused_do_not_count_when_the_limit_is_raised():
    """envoyproxy/ratelimit#185: forty refused calls had used up what was granted later."""
    world = world_of("requests_per_minute", 10)
    assert world.count_admitted(*BOTH * 25) == 10
    world.set_rules([rule("requests_per_minute", 20, revision=2)])
    world.turns(0.2)
    assert world.count_admitted(*BOTH * 10) == 10


def test_the_border_between_two_minutes_lets_nobody_have_both():
    """envoyproxy/ratelimit#32: all of a minute at its end, and all of the next at its beginning."""
    world = world_of("requests_per_minute", 10)
    world.turns(59 - world.now % 60)
    assert world.count_admitted(*BOTH * 6) == 10
    world.turns(2)
    assert world.count_admitted(*BOTH * 6) == 0


def test_a_limit_of_one_lets_one_in():
    """upstash/ratelimit-js#39: a sliding window of one rounded to none."""
    world = world_of("requests_per_minute", 1)
    assert [world.count_admitted(*BOTH), world.count_admitted(*BOTH)] == [1, 0]
    world.turns(61)
    assert world.count_admitted(*BOTH) == 1


def test_a_small_rate_with_a_burst_of_one_comes_back_one_at_a_time():
    """inngest/inngest#1459: of a limit below ten a tenth was allowed at once, which is none."""
    world = world_of("requests_per_minute", 5, burst=1)
    assert world.count_admitted(*BOTH) == 1
    for _ in range(3):
        world.turns(12.2)
        assert world.count_admitted(*BOTH) == 1


def test_a_request_as_large_as_the_whole_bucket_is_told_when_it_fits_and_fits_then():
    """redis/redis#14826: it was told never, though the bucket fills up."""
    world = world_of("tokens_per_minute", 60, burst=30)
    use(world, 1, output_tokens=30)
    asker = world.ask("g1", output_tokens=30)
    assert not world.outcome(asker)
    assert 25_000 < retry_ms(asker) <= 30_000
    world.turns(retry_ms(asker) / 1000 + 0.2)
    assert world.count_admitted("g2", output_tokens=30) == 1


def test_a_request_that_is_larger_than_the_bucket_is_refused_for_good_and_takes_nothing():
    """rwz/redis-gcra#6: whether it drains the bucket was anybody's guess."""
    world = world_of("tokens_per_minute", 60, burst=30)
    asker = world.ask("g1", output_tokens=31)
    assert not world.outcome(asker)
    assert error_of(asker.shortfall, asker.claims, world.now).code == "larger_than_limit"
    assert world.count_admitted("g2", output_tokens=30) == 1


@pytest.mark.parametrize("burst", [None, 40])
def test_who_waits_as_long_as_was_said_gets_in_and_who_waits_less_does_not(burst):
    """antifuchs/ratelimit_meter#36, Losant/redis-gcra#3: the time to wait was too long, or one half of it enough."""
    world = world_of("tokens_per_minute", 40, burst=burst)
    use(world, 4, output_tokens=10)
    asker = world.ask("g1", output_tokens=20)
    assert not world.outcome(asker)
    world.turns(retry_ms(asker) / 1000 - 1)
    assert world.count_admitted("g2", output_tokens=20) == 0
    world.turns(1.2)
    assert world.count_admitted("g1", output_tokens=20) == 1


def test_what_is_refused_though_something_is_left_says_what_it_lacks_and_how_long():
    """viafintech/gcra-ruby#11: refused with one left, and no time to wait."""
    world = world_of("tokens_per_minute", 40)
    use(world, 3, output_tokens=10)
    asker = world.ask("g1", output_tokens=20)
    assert not world.outcome(asker)
    message = error_of(asker.shortfall, asker.claims, world.now).message
    assert "10 left, this request needs 20" in message
    assert retry_ms(asker) > 50_000


def test_refusals_lengthen_no_wait():
    """BerriAI/litellm#18953: who had once met the limit could do nothing for five minutes."""
    world = world_of("tokens_per_minute", 100)
    use(world, 10, output_tokens=10)
    for _ in range(29):
        assert world.count_admitted(*BOTH, output_tokens=10) == 0
        world.turns(1.5)
    world.turns(20)
    assert world.count_admitted(*BOTH * 8, output_tokens=10) == 10


def test_tokens_of_requests_that_come_at_once_are_held_before_any_has_ended():
    """BerriAI/litellm#18730: five at once passed a limit of a hundred with six hundred tokens."""
    world = world_of("tokens_per_minute", 100)
    askers = [world.ask(BOTH[number % 2], output_tokens=tokens) for number, tokens in enumerate((58, 80, 175, 41, 1))]
    assert [world.outcome(asker) for asker in askers] == [True, False, False, True, True]


def test_a_request_of_which_nothing_can_be_estimated_but_its_limit_holds_that():
    """BerriAI/litellm#27001: without messages, prompt or input nothing was held at all."""
    world = world_of("tokens_per_minute", 100)
    assert world.count_admitted(*BOTH * 2, input_tokens=0, output_tokens=60) == 1


def test_money_is_held_at_the_price_of_what_is_asked_for():
    """BerriAI/litellm#40002: five long prompts at once were held at a lower tier's price, and four got in."""
    world = world_of("cost_total", 450_000_000)
    price = Price(input_pico_usd=500_000, output_pico_usd=0)
    wants = {"input_tokens": 300_000, "output_tokens": 10, "price": price}
    assert world.count_admitted(*BOTH * 3, **wants) == 3


def test_all_keys_of_a_member_spend_the_members_money():
    """BerriAI/litellm#23714: a budget was passed by another key of the same user."""
    world = world_of("tokens_per_day", 50, scope="member", subject="*")
    assert sum(world.count_admitted(*BOTH, key_id=f"k{number}", output_tokens=10) for number in range(5)) == 5


def test_a_limit_of_one_model_is_not_passed_by_the_others_nor_counts_them():
    """BerriAI/litellm#7302: a budget of a model counted what other models cost."""
    world = world_of("tokens_per_day", 50, model="chat")
    assert world.count_admitted(*BOTH * 5, model="other", output_tokens=10) == 10
    assert world.count_admitted(*BOTH * 5, output_tokens=10) == 5


def test_a_limit_that_is_lowered_below_what_is_used_refuses_and_owes_nothing_afterwards():
    """envoyproxy/ratelimit#185, the other way round: what was used beyond the new limit is no debt."""
    world = world_of("requests_per_minute", 20)
    assert world.count_admitted(*BOTH * 8) == 16
    world.set_rules([rule("requests_per_minute", 5, revision=2)])
    world.turns(0.2)
    assert world.count_admitted(*BOTH) == 0
    world.turns(61)
    assert world.count_admitted(*BOTH * 5) == 5
