import msgspec
import pytest

from tests.support.limits_world import BEGIN_S, World, rule
from workers.contracts.limits import EACH
from workers.contracts.snapshot import Price
from workers.gateway.limits.ledger import DEGRADED_AFTER_S, LEASE_S, MAX_ASKS, PROMISED_HEARTBEAT_S, TTL_S

pytestmark = pytest.mark.unit

DEAR = Price(input_pico_usd=1000, output_pico_usd=2000)


def test_a_limit_of_ten_admits_ten_wherever_they_come():
    world = World([rule(amount=10)], gateways=4)
    assert world.count_admitted(*["g1", "g2", "g3", "g4"] * 10) == 10


def test_one_gateway_gets_what_others_held_and_did_not_use():
    world = World([rule(amount=10)], gateways=2)
    assert world.count_admitted("g1", "g2") == 2
    assert world.count_admitted(*["g2"] * 20) == 8


def test_a_lease_that_lies_idle_is_given_back_before_anybody_asks():
    world = World([rule("tokens_per_minute", 1000)])
    asker = world.ask(output_tokens=100)
    assert world.outcome(asker)
    world.settle(asker, tokens=10)
    world.turns(0.3)
    account = next(iter(world.ledgers["g1"].accounts.values()))
    assert (account.free, account.spent) == (0, 10)


def test_a_steady_stream_is_admitted_without_waiting():
    world = World([rule(amount=100_000)])
    for _ in range(10):
        world.count_admitted(*["g1"] * 20)
        world.turn()
    assert not any(world.ask().is_waiting for _ in range(20))


def test_a_window_comes_back_when_sixty_seconds_have_passed_and_not_before():
    world = World([rule(amount=3)])
    assert world.count_admitted("g1", "g1", "g1", "g1") == 3
    world.turn()
    world.turns(59, step_s=0.5)
    assert world.count_admitted("g1") == 0
    world.turns(1.3, step_s=0.1)
    assert world.count_admitted("g1", "g2", "g1", "g2") == 3


def test_a_burst_bounds_what_comes_at_once_and_the_rate_brings_it_back():
    world = World([rule(amount=60, burst=5)])
    assert world.count_admitted(*["g1"] * 8) == 5
    world.turns(3, step_s=0.1)
    assert 2 <= world.count_admitted(*["g2"] * 8) <= 4


def test_slots_are_free_again_when_their_requests_end():
    world = World([rule("concurrent_requests", 2)])
    first, second = world.ask("g1"), world.ask("g2")
    assert world.outcome(first)
    assert world.outcome(second)
    assert not world.outcome(world.ask("g1"))
    world.settle(second)
    assert world.outcome(world.ask("g1"))
    assert not world.outcome(world.ask("g2"))


def test_settling_twice_gives_a_slot_back_once():
    world = World([rule("concurrent_requests", 1)])
    asker = world.ask()
    assert world.outcome(asker)
    world.settle(asker)
    world.settle(asker)
    assert world.count_admitted("g1", "g2", "g1") == 1


def test_tokens_are_reserved_as_estimated_and_settled_as_used():
    world = World([rule("tokens_per_day", 100)])
    asker = world.ask(input_tokens=10, output_tokens=50)
    assert world.outcome(asker)
    assert not world.outcome(world.ask("g2", output_tokens=50))
    world.settle(asker, tokens=20)
    assert world.outcome(world.ask("g2", output_tokens=80))


def test_using_more_than_was_reserved_is_counted_in_full():
    world = World([rule("tokens_per_day", 100)])
    asker = world.ask(output_tokens=50)
    assert world.outcome(asker)
    world.settle(asker, tokens=150)
    assert not world.outcome(world.ask("g2", output_tokens=1))


def test_a_request_on_two_limits_takes_of_both_or_of_none():
    world = World([rule(amount=10), rule("concurrent_requests", 1)])
    assert world.count_admitted("g1", "g1", "g1") == 1
    requests = next(a for a in world.ledgers["g1"].accounts.values() if a.rule.kind == "requests_per_minute")
    assert requests.spent == 1


def test_money_that_is_spent_keeps_only_priced_requests_out():
    world = World([rule("cost_total", 1000)])
    asker = world.ask(output_tokens=500, price=DEAR)
    assert world.outcome(asker)
    world.settle(asker, cost_pico_usd=1_000_000)
    assert not world.outcome(world.ask("g2", output_tokens=1, price=DEAR))
    assert world.outcome(world.ask("g2", output_tokens=1))


def test_fractions_of_a_nanodollar_add_up():
    world = World([rule("cost_total", 1000)])
    for _ in range(10):
        asker = world.ask(input_tokens=1, price=Price(input_pico_usd=100))
        assert world.outcome(asker)
        world.settle(asker, cost_pico_usd=100)
    assert next(iter(world.ledgers["g1"].accounts.values())).spent == 1


def test_the_first_request_of_an_unknown_user_obeys_the_limit_for_each():
    each = rule(amount=2, scope="end_user", subject="*")
    world = World([each])
    assert world.count_admitted("g1", "g2", "g1", end_user="ann") == 2
    assert world.count_admitted("g1", "g2", "g1", end_user="bob") == 2


def test_who_is_named_has_a_limit_of_their_own_instead():
    each = rule(amount=2, scope="end_user", subject="*")
    named = rule(amount=5, scope="end_user", subject="ann", limit_id="ann's")
    world = World([each, named])
    assert world.count_admitted(*["g1"] * 9, end_user="ann") == 5


def test_the_owner_of_the_key_stands_in_for_a_user_who_is_not_named():
    world = World([rule(amount=2, scope="end_user", subject="*")])
    assert world.count_admitted("g1", "g1", "g1", member_id="m1") == 2
    assert world.count_admitted("g1", member_id="m2") == 1


def test_a_limit_of_one_model_leaves_the_others_alone():
    world = World([rule(amount=1, model="chat")])
    assert world.count_admitted("g1", "g1", model="chat") == 1
    assert world.count_admitted("g1", "g1", model="embed") == 2


def test_what_a_killed_gateway_held_comes_back_to_who_asks_before_anybody_knows_that_it_is_dead():
    world = World([rule("concurrent_requests", 3)], gateways=2)
    assert world.count_admitted("g1", "g1", "g1") == 3
    world.turn()
    world.crash("g1")
    assert world.count_admitted("g2", "g2", "g2", "g2") == 3
    assert world.now < BEGIN_S + TTL_S + 1


def test_nobody_is_refused_a_place_that_a_gateway_which_was_slow_to_say_so_had_free():
    world = World([rule("concurrent_requests", 1)], gateways=2)
    first = world.ask("g1")
    assert world.outcome(first)
    world.settle(first)
    later = world.ask("g2")
    for _ in range(10):
        world.now += 0.05
        world.exchange("g2")
    assert later.is_waiting
    assert world.outcome(later)


def test_who_asks_for_a_place_that_runs_elsewhere_is_refused_soon():
    world = World([rule("concurrent_requests", 1)], gateways=2)
    assert world.outcome(world.ask("g1"))
    world.turns(1)
    later, asked_at = world.ask("g2"), world.now
    assert not world.outcome(later)
    assert world.now - asked_at < 0.2


def test_a_gateway_whose_requests_hold_something_shows_often_that_it_lives():
    world = World([rule("concurrent_requests", 1)])
    ledger, asker = world.ledgers["g1"], world.ask("g1")
    assert world.outcome(asker)
    world.turns(0.2)
    assert ledger.is_due(world.now + 2 * PROMISED_HEARTBEAT_S)
    world.settle(asker)
    world.turns(0.2)
    assert not ledger.is_due(world.now + 2 * PROMISED_HEARTBEAT_S)


def test_a_gateway_that_heard_nothing_stops_using_its_lease_before_it_is_given_to_others():
    world = World([rule("tokens_per_minute", 1000)])
    first = world.ask(output_tokens=500)
    assert world.outcome(first)
    world.settle(first, tokens=1)
    assert not world.ask(output_tokens=10).is_waiting
    world.now += LEASE_S + 0.01
    assert world.ask(output_tokens=10).is_waiting


def test_a_lower_limit_holds_at_once_for_what_is_leased_too():
    world = World([rule("tokens_per_minute", 1000)])
    asker = world.ask(output_tokens=100)
    assert world.outcome(asker)
    world.settle(asker, tokens=100)
    world.set_rules([rule("tokens_per_minute", 150, revision=1)])
    assert world.count_admitted("g1", "g2", output_tokens=40) == 1


def test_a_reset_forgets_what_was_used():
    world = World([rule(amount=2)])
    assert world.count_admitted("g1", "g2", "g1") == 2
    world.set_rules([rule(amount=2, revision=1, reset_count=1)])
    assert world.count_admitted("g1", "g2", "g1") == 2


def test_a_raise_ends_at_its_time():
    raised = rule(amount=2, revision=1, raised_amount=5, raised_until=World([]).now + 10)
    world = World([raised])
    assert world.count_admitted(*["g1", "g2"] * 4) == 5
    world.turns(71, step_s=0.5)
    assert world.count_admitted(*["g1", "g2"] * 4) == 2


def test_without_the_authority_each_gateway_admits_its_share_of_what_was_left():
    world = World([rule(amount=10)], gateways=2)
    assert world.count_admitted("g1", "g2") == 2
    world.turn()
    admitted = sum(len(_admitted_alone(world, gateway, 20)) for gateway in ("g1", "g2"))
    assert 8 <= admitted <= 10
    assert world.ledgers["g1"].degraded_admissions > 0


@pytest.mark.parametrize("kind", ["requests_per_minute", "concurrent_requests", "tokens_per_day"])
@pytest.mark.parametrize("before", [0, 3, 10])
def test_without_the_authority_the_gateways_together_admit_no_more_than_the_limit(kind, before):
    """Ten among four: none of the parts is rounded up, and what one took before is not given out again."""
    world = World([rule(kind, 10)], gateways=4)
    assert world.count_admitted(*["g1"] * before, output_tokens=1) == before
    heard = _have_all_heard_of_it(world)
    admitted = sum(len(_admitted_alone(world, f"g{number}", 12, output_tokens=1)) for number in (1, 2, 3, 4))
    assert before + heard + admitted == 10


def test_without_the_authority_the_parts_of_a_minute_are_those_of_the_whole_again_once_its_use_is_past():
    world = World([rule(amount=10)], gateways=4)
    assert world.count_admitted(*["g1"] * 10) == 10
    _have_all_heard_of_it(world)
    assert sum(len(_admitted_alone(world, f"g{number}", 12)) for number in (1, 2, 3, 4)) == 0
    for _ in range(2):  # minute after minute
        world.now += 62
        assert sum(len(_admitted_alone(world, f"g{number}", 12)) for number in (1, 2, 3, 4)) == 10


@pytest.mark.parametrize("kind", ["requests_per_minute", "tokens_per_minute"])
def test_a_minutes_use_comes_back_also_where_the_authority_has_never_answered(kind):
    world = World([rule(kind, 10)], gateways=1)
    for _ in range(3):
        admitted = _admitted_alone(world, "g1", 12, output_tokens=1)
        assert len(admitted) == 10
        for asker in admitted:
            world.settle(asker, tokens=1)
        assert not _admitted_alone(world, "g1", 1, output_tokens=1)
        world.now += 62


@pytest.mark.parametrize("is_told", [True, False])
def test_without_the_authority_a_burst_comes_back_evenly(is_told):
    """Sixty in a minute and five at once: not five in a minute."""
    world = World([rule(amount=60, burst=5)], gateways=1)
    if is_told:
        assert world.count_admitted("g1") == 1
        world.now += 62
    assert len(_admitted_alone(world, "g1", 12)) == 5
    assert not world.outcome(world.ask("g1"))
    world.now += 2.001
    assert sum(world.outcome(world.ask("g1")) for _ in range(12)) == 2
    world.now += 10
    assert sum(world.outcome(world.ask("g1")) for _ in range(12)) == 5


def test_more_accounts_than_one_message_holds_are_all_asked_for_in_turn():
    world = World([rule(scope="key", subject=EACH)], gateways=1)
    askers = [world.ask("g1", key_id=f"key {number}") for number in range(MAX_ASKS + 20)]
    ledger = world.ledgers["g1"]
    asked = {ask.account for _ in range(2) for ask in ledger.asks(world.now)}
    assert all(asker.is_waiting for asker in askers)
    assert len(asked) == len(askers)


def _have_all_heard_of_it(world):
    """How many requests of that were admitted: one at each gateway, which then has been told what is left."""
    count = sum(world.outcome(world.ask(gateway, output_tokens=1)) for gateway in world.ledgers)
    for _ in range(2):  # what each says, and then what each hears of what the others said
        for ledger in world.ledgers.values():
            ledger.give_all_back()
        world.turn()
    return count


def test_without_the_authority_a_careful_tenant_is_refused():
    world = World([rule(amount=10)], gateways=1, degraded="refuse")
    assert world.count_admitted("g1") == 1
    assert _admitted_alone(world, "g1", 5) == []


def test_what_was_admitted_alone_counts_when_the_authority_is_back():
    world = World([rule("tokens_per_day", 100)], gateways=2)
    assert world.count_admitted("g1", "g2", output_tokens=1) == 2
    asker = _admitted_alone(world, "g1", 1, output_tokens=40)[0]
    world.settle(asker, tokens=40)
    world.turns(0.2)
    assert not world.outcome(world.ask("g2", output_tokens=60))
    assert world.outcome(world.ask("g2", output_tokens=57))


def test_a_period_ends_at_the_tenants_midnight():
    world = World([rule("tokens_per_day", 10)], time_zone="Asia/Kathmandu")
    period = world.tenant.period("tokens_per_day", world.now)
    assert world.count_admitted("g1", "g1", output_tokens=10) == 1
    world.now = period.end - 5
    assert world.count_admitted("g1", output_tokens=10) == 0
    world.now = period.end
    assert world.count_admitted("g1", output_tokens=10) == 1


def test_what_nobody_has_counted_yet_waits_and_then_goes_by_the_gateways_share():
    world = World([rule("tokens_per_day", 100, is_counted_by_control_plane=True)], gateways=2)
    world.turn()
    first = world.ask(output_tokens=40)
    world.turns(3)
    assert first.is_waiting
    world.turns(2)
    assert first.reservation is not None
    assert world.ask(output_tokens=40).shortfall.is_unknown
    assert not world.ask(output_tokens=10).is_waiting


def test_what_is_counted_is_exact_again():
    world = World([rule("tokens_per_day", 100, is_counted_by_control_plane=True)])
    world.turn()
    world.ask(output_tokens=40)
    world.turns(5)
    account = next(iter(world.ledgers["g1"].accounts.values()))
    world.authority.markers.add(account.marker)
    world.turn()
    assert world.outcome(world.ask("g2", output_tokens=60))
    assert not world.outcome(world.ask("g1", output_tokens=1))


def _admitted_alone(world, gateway, count, **wants):
    """Nobody answers for long; then so many requests come."""
    ledger = world.ledgers[gateway]
    world.now += LEASE_S + 0.01
    ledger.failed(ledger.asks(world.now), world.now)
    world.now += DEGRADED_AFTER_S
    ledger.failed(ledger.asks(world.now), world.now)
    askers = [world.ask(gateway, **wants) for _ in range(count)]
    return [asker for asker in askers if asker.reservation is not None]


def test_what_a_request_asks_for_can_be_told_however_much_it_is_and_is_refused():
    world = World([rule("tokens_per_minute", 1000)])
    others = [world.ask(output_tokens=2**70) for _ in range(3)]
    assert msgspec.msgpack.encode(world.send("g1"))
    assert not any(world.outcome(each) for each in others)
    assert world.outcome(world.ask(output_tokens=10))
