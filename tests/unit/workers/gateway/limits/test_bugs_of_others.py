"""What went wrong in other gateways' limits and budgets, rebuilt: each case names the report it comes from."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tests.support.limits_world import World, demand, rule
from workers.contracts.limit_periods import period_at
from workers.contracts.limits import Block, TenantLimits
from workers.contracts.snapshot import Price
from workers.gateway.limits.ledger import TTL_S
from workers.gateway.limits.refusals import error_of, rate_headers
from workers.gateway.limits.rulebook import TenantRules

pytestmark = pytest.mark.unit

CENT = 10**10  # picodollars
PRICED = {"output_tokens": 10, "price": Price(output_pico_usd=CENT // 10)}  # a cent a request
TEN_CENTS = 10 * CENT // 1000


def admitted(world, *gateways, **wants):
    askers = [world.ask(gateway, **wants) for gateway in gateways]
    world.turns(1)
    return [asker for asker in askers if asker.reservation is not None]


def test_requests_that_come_at_once_do_not_all_pass_one_look_at_the_budget():
    """BerriAI/litellm#34732, membrane/api-gateway#3210, envoyproxy/ai-gateway#680."""
    world = World([rule("cost_total", TEN_CENTS)], gateways=3)
    assert len(admitted(world, *["g1", "g2", "g3"] * 20, **PRICED)) == 10


def test_first_requests_of_an_unknown_user_that_come_at_once_share_the_default():
    """BerriAI/litellm#40095."""
    world = World([rule("cost_per_day", TEN_CENTS, scope="end_user", subject="*")], gateways=3)
    assert len(admitted(world, *["g1", "g2", "g3"] * 20, end_user="never seen", **PRICED)) == 10


def test_requests_that_fail_leave_no_reservation_behind():
    """BerriAI/litellm#27639, #36592: phantom spend until the counter expires."""
    world = World([rule("cost_total", TEN_CENTS), rule("tokens_per_day", 100)], gateways=2)
    for _ in range(30):
        for asker in admitted(world, "g1", "g2", **PRICED):
            world.settle(asker, tokens=0, cost_pico_usd=0)
    assert len(admitted(world, *["g1", "g2"] * 10, **PRICED)) == 10


def test_what_is_enforced_is_what_was_spent_and_not_twice_that():
    """BerriAI/litellm#36926, #40050: the counter was seeded with the spend and the spend added again."""
    world = World([rule("cost_total", TEN_CENTS)], gateways=2)
    for asker in admitted(world, *["g1", "g2"] * 2, **PRICED):
        world.settle(asker, cost_pico_usd=CENT)
    for _ in range(3):
        asks = world.send("g1")
        world.deliver("g1", asks)
        world.deliver("g1", asks)
        world.turn()
    assert len(admitted(world, *["g1", "g2"] * 10, **PRICED)) == 6


def test_a_reset_is_whole_on_every_gateway_and_for_every_period():
    """BerriAI/litellm#38686, #30002."""
    kinds = ("cost_per_day", "cost_per_month", "cost_total")
    world = World([rule(kind, TEN_CENTS) for kind in kinds], gateways=3)
    for asker in admitted(world, *["g1", "g2", "g3"] * 4, **PRICED):
        world.settle(asker, cost_pico_usd=CENT)
    assert admitted(world, "g1", "g2", "g3", **PRICED) == []
    world.set_rules([rule(kind, TEN_CENTS, reset_count=1, revision=1) for kind in kinds])
    assert len(admitted(world, *["g1", "g2", "g3"] * 10, **PRICED)) == 10


@pytest.mark.parametrize("scope", ["end_user", "tenant", "key", "member"])
@pytest.mark.parametrize("kind", ["cost_per_day", "cost_per_month"])
def test_a_period_that_ends_begins_at_nothing_for_everybody(scope, kind):
    """BerriAI/litellm#7129, #8364, #24675: end users and teams were never reset."""
    world = World([rule(kind, TEN_CENTS, scope=scope, subject="" if scope == "tenant" else "*")], gateways=2)
    for _ in range(3):
        for asker in admitted(world, *["g1", "g2"] * 8, end_user="ann", **PRICED):
            world.settle(asker, cost_pico_usd=CENT)
        assert admitted(world, "g1", end_user="ann", **PRICED) == []
        world.now = world.tenant.period(kind, world.now).end + 1
        world.turns(1)
    assert len(admitted(world, *["g1", "g2"] * 8, end_user="ann", **PRICED)) == 10


def test_the_last_day_of_a_month_counts_in_that_month_only():
    """BerriAI/litellm#27917: April's last day was in May's total, too."""
    zone = ZoneInfo("America/Los_Angeles")
    evening = datetime(2026, 4, 30, 23, 59, 59, tzinfo=zone).timestamp()
    april, may = period_at("cost_per_month", zone, evening), period_at("cost_per_month", zone, evening + 1)
    assert (april.name, may.name) == ("2026-04@America/Los_Angeles", "2026-05@America/Los_Angeles")
    assert april.end == may.start == evening + 1


@pytest.mark.parametrize(
    ("day", "hours"), [(datetime(2026, 3, 29, 12, tzinfo=UTC), 23), (datetime(2026, 10, 25, 12, tzinfo=UTC), 25)]
)
def test_a_day_on_which_the_clocks_change_is_a_day(day, hours):
    period = period_at("tokens_per_day", ZoneInfo("Europe/Berlin"), day.timestamp())
    assert (period.end - period.start) / 3600 == hours
    assert period_at("tokens_per_day", ZoneInfo("Europe/Berlin"), period.end).start == period.end


def test_a_key_that_has_spent_its_budget_is_refused_however_often_it_asks():
    """BerriAI/litellm#23714, #26672, #27381."""
    world = World([rule("cost_total", TEN_CENTS, scope="key", subject="*")], gateways=2)
    for asker in admitted(world, *["g1", "g2"] * 10, **PRICED):
        world.settle(asker, cost_pico_usd=CENT)
    assert [len(admitted(world, "g1", "g2", **PRICED)) for _ in range(20)] == [0] * 20
    assert len(admitted(world, "g1", key_id="another", **PRICED)) == 1


def test_a_price_that_is_wrong_by_a_million_stops_nobody_without_a_limit():
    """BerriAI/litellm#20615."""
    world = World([rule("tokens_per_day", 10**6)])
    for asker in admitted(world, *["g1"] * 5, output_tokens=10, price=Price(output_pico_usd=10**18)):
        world.settle(asker, tokens=10, cost_pico_usd=10**19)
    assert len(admitted(world, "g1", output_tokens=10, price=Price(output_pico_usd=10**18))) == 1


def test_a_request_that_used_more_than_was_reserved_leaves_no_negative_remainder():
    world = World([rule("tokens_per_minute", 100)])
    (asker,) = admitted(world, "g1", output_tokens=50)
    world.settle(asker, tokens=5000)
    world.turns(1)
    refused = world.ask("g1", output_tokens=1)
    world.turns(1)
    headers = dict(rate_headers(refused.claims, is_admitted=False))
    assert refused.reservation is None
    assert headers[b"x-ratelimit-remaining-tokens"] == b"0"


def test_money_that_is_spent_stops_no_model_without_a_price():
    world = World([rule("cost_total", TEN_CENTS)], gateways=2)
    for asker in admitted(world, *["g1", "g2"] * 10, **PRICED):
        world.settle(asker, cost_pico_usd=CENT)
    assert admitted(world, "g1", **PRICED) == []
    assert len(admitted(world, *["g1", "g2"] * 50, output_tokens=1000)) == 100


def test_a_gateway_that_restarts_neither_forgets_what_was_spent_nor_counts_it_again():
    """BerriAI/litellm#27735: after a restart the counter and the truth differed."""
    world = World([rule("cost_total", TEN_CENTS)], gateways=2)
    for asker in admitted(world, *["g1"] * 4, **PRICED):
        world.settle(asker, cost_pico_usd=CENT)
    world.turns(1)
    world.crash("g1")
    world.start("g1 again")
    world.turns(TTL_S + 0.2)
    assert len(admitted(world, *["g1 again", "g2"] * 10, **PRICED)) == 6


@pytest.mark.parametrize("subject", ["*", "k1", "k2"])
def test_a_key_that_was_rotated_has_spent_what_its_predecessors_spent(subject):
    """weave-os/router#564, BerriAI/litellm#31079: a rotation gave a new budget, or none at all."""
    rules = [rule("cost_total", TEN_CENTS, scope="key", subject=subject)]
    world = World(rules, gateways=2, key_origins={"k2": "k1", "k3": "k1"})
    spent = [asker for key in ("k1", "k2", "k3") for asker in admitted(world, *["g1", "g2"] * 2, key_id=key, **PRICED)]
    assert len(spent) == 10
    for asker in spent:
        world.settle(asker, cost_pico_usd=CENT)
    assert admitted(world, "g1", "g2", key_id="k3", **PRICED) == []
    assert len(admitted(world, "g1", key_id="of nobody", **PRICED)) == 1


@pytest.mark.parametrize("blocked", ["k1", "k2"])
def test_a_blocked_key_is_not_set_free_by_a_rotation(blocked):
    limits = TenantLimits(tenant_id="t1", blocks=[Block(scope="key", subject=blocked)], key_origins={"k2": "k1"})
    rules = TenantRules(limits)
    assert [rules.block_for(demand(key_id=key), 0) is not None for key in ("k1", "k2", "k3")] == [True, True, False]


@pytest.mark.parametrize("kind", ["requests_per_minute", "tokens_per_minute", "tokens_per_day", "cost_total"])
def test_what_one_limit_refuses_uses_nothing_of_another(kind):
    """BerriAI/litellm#39309: requests that found no place were counted in the minute."""
    amount = TEN_CENTS // 5 if kind == "cost_total" else 20 if kind.startswith("tokens") else 2
    world = World([rule(kind, amount), rule("concurrent_requests", 1)], gateways=2)
    (running,) = admitted(world, "g1", **PRICED)
    for _ in range(20):
        assert admitted(world, "g1", "g2", **PRICED) == []
    world.settle(running, tokens=10, cost_pico_usd=CENT)
    world.turns(0.2)
    assert len(admitted(world, "g2", **PRICED)) == 1


def test_the_minutes_of_requests_and_of_tokens_end_each_by_itself():
    """BerriAI/litellm#24677: one clock for both, and tokens came back after two to five minutes."""
    world = World([rule("requests_per_minute", 100), rule("tokens_per_minute", 100)])
    for _ in range(3):
        for _ in range(10):
            (asker,) = admitted(world, "g1", output_tokens=10)
            world.settle(asker, tokens=10)
        assert admitted(world, "g1", output_tokens=10) == []
        world.turns(60.3)


def test_a_budget_of_nothing_stops_what_costs_and_nothing_else():
    """OpenHands/OpenHands#16996, BerriAI/litellm#14004."""
    world = World([rule("cost_per_month", 0)])
    assert admitted(world, "g1", **PRICED) == []
    assert len(admitted(world, *["g1"] * 5, output_tokens=10)) == 5


def test_a_request_that_sets_no_limit_does_not_hold_all_that_is_left():
    """BerriAI/litellm#27509: whoever came while it ran was refused, with nearly all of the budget unspent."""
    world = World([rule("tokens_per_day", 1000), rule("cost_total", TEN_CENTS * 10)], gateways=2)
    wants = PRICED | {"is_output_known": False}
    assert len(admitted(world, *["g1", "g2"] * 20, **wants)) == 40


def test_the_time_to_wait_is_a_whole_number_of_seconds_and_never_in_the_past():
    """planningcenter/developers#606."""
    world = World([rule("requests_per_minute", 1), rule("tokens_per_day", 15)], gateways=2)
    admitted(world, "g1", output_tokens=10)
    for _ in range(590):
        world.turn(0.1)
        asker = world.ask("g2", output_tokens=10)
        world.turns(0.2)
        if asker.reservation is not None:
            break
        assert asker.shortfall is not None
        told = dict(error_of(asker.shortfall, asker.claims, world.now).headers())
        assert int(told[b"retry-after"]) >= 1
