import msgspec
import pytest

from tests.support.limits_world import BEGIN_S, World, rule
from workers.contracts.limits import Block
from workers.contracts.snapshot import Price
from workers.gateway.limits.refusals import blocked, duration, error_of, rate_headers

pytestmark = pytest.mark.unit

DEAR = Price(output_pico_usd=1000)


def refused(world, **wants):
    asker = world.ask(**wants)
    assert not world.outcome(asker)
    return error_of(asker.shortfall, asker.claims, world.now)


def headers_of(error):
    return dict(error.headers())


def test_a_rate_names_the_limit_what_is_left_and_when_it_comes_back():
    world = World([rule(amount=1)])
    world.count_admitted("g1")
    world.turn()
    error = refused(world)
    assert (error.status, error.code) == (429, "rate_limit_exceeded")
    assert "The limit of 1 requests per minute of this tenant (limit requests_per_minute)" in error.message
    assert 59 <= error.retry_after_s <= 61
    assert headers_of(error)[b"x-ratelimit-remaining-requests"] == b"0"
    assert headers_of(error)[b"x-ratelimit-reset-requests"] in {b"1m0s", b"1m1s", b"60s", b"59s"}


def test_a_bucket_names_its_amount_and_how_much_goes_at_once():
    world = World([rule(amount=6, burst=1)])
    world.count_admitted("g1")
    world.turn()
    assert "The limit of 6 requests per minute, 1 at once, of this tenant" in refused(world).message


def test_a_period_names_its_end():
    world = World([rule("tokens_per_day", 10)])
    world.settle(_admitted(world, output_tokens=10), tokens=10)
    error = refused(world, output_tokens=5)
    assert (error.status, error.code) == (429, "quota_exhausted")
    assert error.retry_after_s == round(world.tenant.period("tokens_per_day", world.now).end - world.now)
    assert "0 left" in error.message


def test_money_is_402_and_says_that_a_total_never_comes_back():
    world = World([rule("cost_total", 5)])
    error = refused(world, output_tokens=10, price=DEAR)
    assert (error.status, error.code, error.retry_after_s) == (402, "budget_exhausted", None)
    assert "$0.000000005" in error.message
    assert "does not reset" in error.message
    assert msgspec.json.decode(error.body())["error"]["type"] == "insufficient_quota"


def test_what_can_never_fit_is_told_so():
    error = refused(World([rule("tokens_per_minute", 10)]), output_tokens=11)
    assert (error.status, error.code, error.retry_after_s) == (429, "larger_than_limit", None)


def test_taken_places_are_worth_a_second_try_soon():
    world = World([rule("concurrent_requests", 1)])
    _admitted(world)
    error = refused(world)
    assert (error.code, error.retry_after_s) == ("too_many_concurrent_requests", 1)


def test_headers_are_those_of_the_tightest_limit_of_each_kind():
    world = World(
        [rule(amount=9), rule(amount=3, scope="key", subject="*", limit_id="key"), rule("tokens_per_minute", 50)]
    )
    asker = _admitted(world, output_tokens=20)
    headers = dict(rate_headers(asker.claims, is_admitted=True))
    assert headers[b"x-ratelimit-limit-requests"] == b"3"
    assert headers[b"x-ratelimit-remaining-requests"] == b"2"
    assert headers[b"x-ratelimit-remaining-tokens"] == b"30"
    assert headers[b"x-ratelimit-reset-requests"] == b"1m0s"


def test_a_block_says_why_and_until_when():
    error = blocked(Block(scope="key", subject="k1", reason="leaked", until=BEGIN_S))
    assert (error.status, error.code) == (403, "blocked")
    assert "leaked" in error.message
    assert "2027-01-15T08:00:00Z" in error.message


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(120, "120ms"), (1000, "1s"), (59_001, "1m0s"), (60_000, "1m0s"), (361_000, "6m1s")]
)
def test_durations_are_written_as_openai_writes_them(milliseconds, text):
    assert duration(milliseconds) == text


def _admitted(world, **wants):
    asker = world.ask(**wants)
    assert world.outcome(asker)
    return asker
