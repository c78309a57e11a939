"""More of what went wrong in other gateways' limits, rebuilt: each case names the report it comes from."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.support.limits_world import World, rule
from workers.contracts.limit_periods import period_at
from workers.gateway.limits.refusals import rate_headers

pytestmark = pytest.mark.unit


def test_a_minute_that_a_wrong_estimate_has_passed_empties_itself_while_everybody_goes_on_asking():
    """experientiallabs/experiential#1048: just above the limit it stood still for a day."""
    world = World([rule("tokens_per_minute", 100)], gateways=2)
    asker = world.ask("g1", output_tokens=10)
    world.turns(0.2)
    world.settle(asker, tokens=5000)
    for _ in range(58):
        assert world.count_admitted("g1", "g2", output_tokens=10) == 0
        world.turns(1 - (world.now - asker.waits_since) % 1)
    world.turns(asker.waits_since + 61 - world.now)
    assert world.count_admitted(*["g1", "g2"] * 8, output_tokens=10) == 10


def test_what_is_left_goes_down_by_one_and_ends_at_nothing_once():
    """discord/discord-api-docs#122: one less than there was, and nothing left said twice before the refusal."""
    world = World([rule("requests_per_minute", 5)], gateways=1)
    world.turns(0.2)
    told = []
    for _ in range(6):
        asker = world.ask("g1")
        is_admitted = world.outcome(asker)
        headers = dict(rate_headers(asker.claims, is_admitted=is_admitted))
        told.append((is_admitted, headers[b"x-ratelimit-remaining-requests"]))
        world.turns(0.2)
    assert told == [(True, b"4"), (True, b"3"), (True, b"2"), (True, b"1"), (True, b"0"), (False, b"0")]


@pytest.mark.parametrize(
    "zone", ["Asia/Shanghai", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu", "Africa/Cairo"]
)
def test_a_day_ends_at_the_tenants_midnight_and_the_next_one_counts_from_there(zone):
    """BerriAI/litellm#34896, #37454: the day ended an offset late, and had thirty-two hours to spend its money in."""
    world = World([rule("tokens_per_day", 100)], gateways=2, time_zone=zone)
    midnight = datetime(2027, 1, 20, tzinfo=ZoneInfo(zone)).timestamp()
    world.now = midnight - 30
    world.turns(0.2)
    assert world.count_admitted(*["g1", "g2"] * 8, output_tokens=10) == 10
    world.turns(midnight - 1 - world.now)
    assert world.count_admitted("g1", "g2", output_tokens=10) == 0
    world.turns(midnight + 1 - world.now)
    assert world.count_admitted(*["g1", "g2"] * 8, output_tokens=10) == 10
    assert world.tenant.period("tokens_per_day", world.now).end == midnight + timedelta(days=1).total_seconds()


def test_a_month_of_a_zone_begins_at_its_own_midnight():
    """openmeterio/openmeter#3313: a month of Budapest was said to begin at UTC's, an hour or two late."""
    zone = ZoneInfo("Europe/Budapest")
    for month in range(1, 13):
        first = datetime(2026, month, 1, tzinfo=zone)
        period = period_at("cost_per_month", zone, first.timestamp())
        assert (period.start, period.name) == (first.timestamp(), f"2026-{month:02}@Europe/Budapest")
        assert period_at("cost_per_month", zone, first.timestamp() - 1).end == first.timestamp()


@pytest.mark.parametrize(("member", "tenant", "admitted"), [(3, 100, 3), (100, 4, 4), (3, 4, 3)])
def test_a_members_own_limit_holds_for_a_key_of_a_team_and_so_does_the_teams(member, tenant, admitted):
    """BerriAI/litellm#11962, #12905: a key that belonged to a team knew its owner's budget no more."""
    rules = [rule("tokens_per_day", 10 * member, limit_id="m", scope="member", subject="m1")]
    world = World([*rules, rule("tokens_per_day", 10 * tenant, limit_id="t")], gateways=2)
    world.turns(0.2)
    assert world.count_admitted(*["g1", "g2"] * 6, output_tokens=10) == admitted


def test_a_limit_that_is_taken_away_leaves_no_limit_of_nothing():
    """ncecere/terraform-provider-litellm#36: without its budget a member had a budget of $0."""
    world = World([rule("requests_per_minute", 1)], gateways=2)
    assert world.count_admitted("g1", "g2") == 1
    world.set_rules([])
    assert world.count_admitted(*["g1", "g2"] * 20) == 40


def test_an_answer_that_needed_less_than_it_might_gives_the_rest_back_at_once():
    """PostHog/posthog#45116: streams never gave back what they had reserved, until nothing was left to reserve."""
    world = World([rule("tokens_per_minute", 1000)], gateways=2)
    for number in range(60):
        asker = world.ask(("g1", "g2")[number % 2], output_tokens=400)
        assert world.outcome(asker)
        world.settle(asker, tokens=5)
        world.turn()
