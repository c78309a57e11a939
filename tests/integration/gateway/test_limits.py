"""Real gateway processes that share limits through a real Valkey. N is N, from outside."""

import asyncio
import time
from contextlib import ExitStack
from uuid import uuid4

import pytest
import redis

from tests.support.gateways import authorised
from tests.support.limited_gateways import limited_gateways
from tests.support.raw_http import call
from tests.support.services import Services
from workers.contracts.limits import ACCOUNT_KEY, WINDOW_KEY, Block, LimitRule, TenantLimits

pytestmark = pytest.mark.integration

EVERYWHERE = (0, 1, 2, 3)
LONG = {"max_tokens": 1200, "min_tokens": 1200, "ignore_eos": True}
EIGHT_TOKENS = {"max_tokens": 8, "min_tokens": 8, "ignore_eos": True}
LONGER = {"max_tokens": 4000, "min_tokens": 4000, "ignore_eos": True}


@pytest.fixture(scope="module")
def yard(valkey, tmp_path_factory):
    with limited_gateways(tmp_path_factory.mktemp("yard"), 4, valkey.url) as running:
        time.sleep(3.2)  # a Valkey that has just started waits for those who may still hold leases
        yield running


def limits(kind="requests_per_minute", amount=10, *, tenant="gold", degraded="share", blocks=(), **changes):
    rule = LimitRule(**({"limit_id": str(uuid4()), "scope": "tenant", "kind": kind, "amount": amount} | changes))
    return TenantLimits(tenant_id=tenant, degraded=degraded, rules=[rule], blocks=list(blocks))


def used_at(yard, path):
    return sum(record.input_tokens + record.output_tokens for record in yard.records("gold") if record.path == path)


async def test_four_gateways_that_are_hammered_admit_exactly_as_many_as_the_limit_says(yard):
    await yard.set_limits(limits(amount=40))
    answers = await yard.ask_all(*EVERYWHERE * 20)
    assert sorted({answer.status for answer in answers}) == [200, 429]
    assert [answer.status for answer in answers].count(200) == 40


async def test_traffic_at_one_gateway_gets_all_that_the_others_were_given_and_did_not_use(yard):
    await yard.set_limits(limits(amount=30))
    assert await yard.count_admitted(*EVERYWHERE * 2) == 8
    assert await yard.count_admitted(*[3] * 40) == 22
    assert await yard.count_admitted(*EVERYWHERE) == 0


async def test_places_are_taken_across_gateways_and_free_as_soon_as_their_requests_end(yard):
    await yard.set_limits(limits("concurrent_requests", 3))
    for _ in range(3):
        assert await yard.count_admitted(*EVERYWHERE, **LONG) == 3


@pytest.mark.parametrize(
    ("path", "body", "kept_in"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 40}, "max_tokens"),
        ("/v1/completions", {"prompt": "x", "max_tokens": 40, "max_completion_tokens": 1}, "max_tokens"),
        ("/v1/responses", {"input": "x" * 40, "max_output_tokens": 40, "max_tokens": 1}, "max_output_tokens"),
        ("/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 40}, "max_tokens"),
    ],
)
async def test_streams_of_every_api_hold_their_tokens_until_they_end_and_their_place_too(yard, path, body, kept_in):
    """api7/aisix#688, BerriAI/litellm#41610: streams of Messages and Responses counted no tokens and held no place."""
    stream = body | {"model": "demo-chat", "stream": True, "ignore_eos": True}

    async def ask(place, **changes):
        return await call(yard.gateways[place].port, "POST", path, stream | changes, authorised("gold"))

    before = used_at(yard, path)
    await yard.set_limits(limits("tokens_per_minute", 300))
    answers = await asyncio.gather(*(ask(place) for place in EVERYWHERE * 4))
    assert {answer.status for answer in answers} == {200, 429}
    assert 200 < used_at(yard, path) - before <= 300
    await yard.set_limits(limits("concurrent_requests", 2))
    answers = await asyncio.gather(*(ask(place, **{kept_in: 400}) for place in EVERYWHERE))
    assert [answer.status for answer in answers].count(200) == 2


async def test_a_client_that_leaves_frees_its_place(yard):
    await yard.set_limits(limits("concurrent_requests", 1))
    leaving = asyncio.create_task(yard.gateways[0].chat(**LONGER))
    await asyncio.sleep(0.5)
    assert (await yard.gateways[1].chat()).status == 429
    leaving.cancel()
    await asyncio.sleep(0.3)
    assert (await yard.gateways[1].chat()).status == 200


async def test_money_is_spent_to_the_last_request_that_fits_and_free_models_go_on(yard):
    await yard.set_limits(limits("cost_total", 40_000_000))  # of 1 000 000 each token of output
    answers = await yard.ask_all(*EVERYWHERE * 3, max_tokens=8, min_tokens=8, ignore_eos=True)
    refused = [answer for answer in answers if answer.status == 402]
    assert len(answers) - len(refused) == 5
    assert refused[0].json()["error"]["code"] == "budget_exhausted"


@pytest.mark.parametrize(
    ("kind", "amount", "unit", "of"),
    [
        ("tokens_per_day", 200, 1, {}),
        ("tokens_per_minute", 200, 1, {}),
        ("tokens_per_month", 170, 1, {}),
        ("cost_per_day", 10**8, 10**6, {}),
        ("tokens_per_day", 230, 1, {"model": "demo-chat"}),
        ("cost_per_month", 9 * 10**7, 10**6, {"scope": "key", "subject": "*"}),
        ("cost_total", 11 * 10**7, 10**6, {"scope": "end_user", "subject": "*"}),
        ("tokens_per_minute", 150, 1, {"scope": "member", "subject": "*", "model": "demo-chat"}),
    ],
)
async def test_what_was_used_is_never_more_than_the_limit_and_less_by_no_request_that_would_fit(
    yard, kind, amount, unit, of
):
    """Counted from outside: what the clients were told of tokens, those of output a million nanodollars each."""
    await yard.set_limits(limits(kind, amount, **of))
    used = []
    while told := [
        answer.json()["usage"] for answer in await yard.ask_all(*EVERYWHERE * 6, **EIGHT_TOKENS) if answer.status == 200
    ]:
        used += [usage["total_tokens"] if unit == 1 else usage["completion_tokens"] * unit for usage in told]
    assert sum(used) <= amount
    assert amount - sum(used) < 2 * max(used)


async def test_no_account_stays_in_valkey_for_good(yard, valkey):
    """Tabcorp/redis-rate-limiter#1: a key without an end shut its client out for ever."""
    for kind, amount in (("requests_per_minute", 5), ("concurrent_requests", 3), ("cost_total", 10**8)):
        await yard.set_limits(limits(kind, amount))
        await yard.ask_all(*EVERYWHERE * 2, **EIGHT_TOKENS)
    with redis.Redis.from_url(valkey.url) as client:
        accounts = [*client.scan_iter(f"{ACCOUNT_KEY}*"), *client.scan_iter(f"{WINDOW_KEY}*")]
        assert len(accounts) > 3
        assert [key for key in accounts if client.ttl(key) < 0] == []


async def test_each_user_has_a_limit_of_their_own_from_the_first_request(yard):
    await yard.set_limits(limits(amount=3, scope="end_user", subject="*"))
    assert await yard.count_admitted(*EVERYWHERE * 2, user="ann") == 3
    assert await yard.count_admitted(*EVERYWHERE * 2, user="bob") == 3


async def test_headers_tell_what_is_left_and_a_refusal_names_the_limit_and_its_end(yard):
    await yard.set_limits(limits(amount=3))
    left = [(await yard.gateways[place].chat()).header("x-ratelimit-remaining-requests") for place in (0, 0, 0)]
    assert left == ["2", "1", "0"]
    refused = await yard.gateways[0].chat()
    assert refused.status == 429
    assert 55 <= int(refused.header("retry-after")) <= 61
    assert refused.header("x-ratelimit-limit-requests") == "3"
    assert refused.header("x-ratelimit-remaining-requests") == "0"
    assert "3 requests per minute" in refused.json()["error"]["message"]


async def test_an_edit_a_block_and_a_reset_hold_on_warm_gateways(yard):
    first = limits(amount=4)
    await yard.set_limits(first)
    assert await yard.count_admitted(*EVERYWHERE * 2) == 4
    raised = limits(amount=6, limit_id=first.rules[0].limit_id, revision=1)
    await yard.set_limits(raised)
    assert await yard.count_admitted(*EVERYWHERE * 2) == 2
    await yard.set_limits(TenantLimits(tenant_id="gold", blocks=[Block(scope="tenant", reason="unpaid")]))
    assert {answer.status for answer in await yard.ask_all(*EVERYWHERE)} == {403}
    await yard.set_limits(limits(amount=6, limit_id=first.rules[0].limit_id, revision=2, reset_count=1))
    assert await yard.count_admitted(*EVERYWHERE * 2) == 6


async def test_a_soft_limit_warns_in_a_header(yard):
    await yard.set_limits(limits(amount=4, soft_percent=75))
    answers = [await yard.gateways[0].chat() for _ in range(4)]
    warned = [answer.header("x-tokenyard-limit-warning") is not None for answer in answers]
    assert warned == [False, False, True, True]


async def test_a_tenant_without_limits_sees_none_of_it(yard):
    await yard.set_limits(limits(amount=1))
    answers = await yard.ask_all(*EVERYWHERE, tenant="batch")
    assert {answer.status for answer in answers} == {200}
    assert answers[0].header("x-ratelimit-limit-requests") is None


def test_a_killed_gateway_gives_its_places_back_and_loses_no_request_that_it_had_admitted(valkey, tmp_path):
    with limited_gateways(tmp_path, 3, valkey.url) as yard:
        asyncio.run(_kill_one(yard))


async def _kill_one(yard):
    await yard.set_limits(limits("concurrent_requests", 4), limits(amount=12, tenant="batch"))
    async with asyncio.TaskGroup() as group:
        doomed = [group.create_task(_ignoring_death(yard.gateways[0].chat(**LONGER))) for _ in range(4)]
        await asyncio.sleep(0.5)
        assert await yard.count_admitted(0, 1, 2, tenant="batch") == 3
        await asyncio.sleep(0.2)
        assert (await yard.gateways[1].chat()).status == 429
        yard.kill(0)
    assert doomed
    assert await _admitted_in_the_end(yard, 4)
    assert await yard.count_admitted(*(1, 2) * 10, tenant="batch") == 9


async def _ignoring_death(answer):
    try:
        return await answer
    except (OSError, IndexError):
        return None


async def _admitted_in_the_end(yard, count, timeout_s=10):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if await yard.count_admitted(*(1, 2) * count, **LONG) == count:
            return True
        await asyncio.sleep(0.3)
    return False


def test_without_valkey_requests_go_on_as_written_and_with_it_limits_are_exact_again(tmp_path):
    services = Services()
    with ExitStack() as until_the_outage:
        first = until_the_outage.enter_context(services.running_valkey())
        with limited_gateways(tmp_path, 2, first.url) as yard:
            asyncio.run(_before_the_outage(yard))
            until_the_outage.close()
            asyncio.run(_during_the_outage(yard))
            with services.running_valkey():  # which has forgotten everything
                asyncio.run(_after_the_outage(yard))


async def _before_the_outage(yard):
    await yard.set_limits(
        limits("tokens_per_day", 1000, limit_id="day"),
        limits(amount=6, tenant="batch", degraded="refuse", limit_id="careful"),
    )
    await asyncio.sleep(3)
    assert await yard.count_admitted(0, 1, **EIGHT_TOKENS) == 2
    assert await yard.count_admitted(0, 1, tenant="batch") == 2
    assert (await yard.gateways[0].metrics())["tokenyard_gateway_limits_degraded"] == 0


async def _during_the_outage(yard):
    await asyncio.sleep(3.5)
    assert (await yard.gateways[0].metrics())["tokenyard_gateway_limits_degraded"] == 1
    assert await yard.count_admitted(*[0] * 4, **EIGHT_TOKENS) == 4
    refused = (await yard.ask_all(0, tenant="batch"))[0]
    assert (refused.status, refused.json()["error"]["code"]) == (429, "limit_unavailable")
    await asyncio.sleep(0.3)
    assert (await yard.gateways[0].metrics())["tokenyard_gateway_limits_degraded_admissions_total"] == 4


async def _after_the_outage(yard):
    await asyncio.sleep(4)
    assert (await yard.gateways[0].metrics())["tokenyard_gateway_limits_degraded"] == 0
    assert await yard.count_admitted(*(0, 1) * 6, tenant="batch") == 4
    left = [answer for answer in await yard.ask_all(1, max_tokens=1000) if answer.status == 200]
    assert left == []
    used = sum(record.input_tokens + record.output_tokens for record in yard.records("gold"))
    assert (await yard.ask_all(1, max_tokens=1000 - used - 30))[0].status == 200
