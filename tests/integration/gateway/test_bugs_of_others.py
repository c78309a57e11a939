"""What went wrong in other gateways' metering, rebuilt against this one: each case names the report it comes from."""

from contextlib import asynccontextmanager

import msgspec
import pytest

from tests.support.fake_engines import fake_engine
from tests.support.gateways import chat_body, message_body, response_body, running_gateway, snapshot_for
from workers.contracts.limits import LimitRule, TenantLimits
from workers.contracts.snapshot import Price

pytestmark = pytest.mark.integration

EIGHT = {"min_tokens": 8, "ignore_eos": True}
ROUTES = {
    "/v1/chat/completions": lambda text, **fields: chat_body(text, **EIGHT, **fields),
    "/v1/completions": lambda text, **fields: {"model": "demo-chat", "prompt": text, "max_tokens": 8} | EIGHT | fields,
    "/v1/messages": lambda text, **fields: message_body(text, **EIGHT, **fields),
    "/v1/responses": lambda text, **fields: response_body(text, **EIGHT, **fields),
}
LONG_TEXT = "a prompt that fills blocks of the cache " * 8
PRICE = Price(input_pico_usd=10**6, cached_input_pico_usd=10**5, output_pico_usd=10**8)
ONE_ANSWER_NANO_USD = 8 * 10**8 // 1000


def priced(snapshot, *rules):
    versions = [msgspec.structs.replace(version, price=PRICE) for version in snapshot.versions]
    limits = [TenantLimits(tenant_id="gold", rules=list(rules))] if rules else []
    return msgspec.structs.replace(snapshot, versions=versions, limits=limits)


@asynccontextmanager
async def served(tmp_path, *rules):
    async with fake_engine("--served-model-name", "demo-chat", "--max-model-len", "2048") as engine:
        snapshot = priced(snapshot_for(("demo-chat", 100, [engine.port])), *rules)
        async with running_gateway(tmp_path, snapshot) as gateway:
            yield gateway


def tokens_of(record):
    return record.input_tokens, record.cached_input_tokens, record.output_tokens


@pytest.mark.parametrize("path", ROUTES)
async def test_a_stream_costs_what_the_whole_answer_costs(tmp_path, path):
    """BerriAI/litellm#37923, #37924: spend 0 for every stream of one route."""
    async with served(tmp_path) as gateway:
        for is_stream in (False, False, True):
            assert (await gateway.call("POST", path, ROUTES[path](LONG_TEXT, stream=is_stream))).status == 200
        _, whole, stream = await gateway.wait_for_records(3)
    assert (whole.is_stream, stream.is_stream) == (False, True)
    assert tokens_of(stream) == tokens_of(whole)
    assert stream.cost_pico_usd == whole.cost_pico_usd > 0


@pytest.mark.parametrize("path", ROUTES)
async def test_cached_input_is_priced_once_and_at_its_own_price(tmp_path, path):
    """Aider-AI/aider#5518, theopenco/llmgateway#1857, adolfousier/opencrabs#1636, BerriAI/litellm#29145."""
    async with served(tmp_path) as gateway:
        for _ in range(2):
            await gateway.call("POST", path, ROUTES[path](LONG_TEXT))
        first, again = await gateway.wait_for_records(2)
    assert first.cached_input_tokens == 0 < again.cached_input_tokens < again.input_tokens == first.input_tokens
    assert first.cost_pico_usd - again.cost_pico_usd == again.cached_input_tokens * (10**6 - 10**5)


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_every_route_counts_against_the_money(tmp_path, path, is_stream):
    """BerriAI/litellm#38176: /v1/responses and /v1/messages passed the cap."""
    amount = 3 * ONE_ANSWER_NANO_USD + ONE_ANSWER_NANO_USD // 2
    rule = LimitRule(limit_id="money", scope="key", subject="*", kind="cost_total", amount=amount)
    async with served(tmp_path, rule) as gateway:
        statuses = [(await gateway.call("POST", path, ROUTES[path]("hi", stream=is_stream))).status for _ in range(6)]
    assert statuses == [200] * 3 + [402] * 3


@pytest.mark.parametrize("path", ROUTES)
async def test_a_request_that_the_engine_rejects_is_not_charged(tmp_path, path):
    async with served(tmp_path) as gateway:
        body = ROUTES[path]("word " * 5000)
        assert (await gateway.call("POST", path, body)).status == 400
        (record,) = await gateway.wait_for_records(1)
    assert (record.outcome, record.cost_pico_usd, record.output_tokens) == ("rejected", 0, 0)


async def test_a_client_that_asks_for_usage_and_one_that_does_not_are_charged_alike(tmp_path):
    """A stream without `stream_options` has no usage for the client, and so had none for the bill."""
    async with served(tmp_path) as gateway:
        for options in ({}, {"stream_options": {"include_usage": True}}, {"stream_options": {"include_usage": False}}):
            await gateway.chat(LONG_TEXT, stream=True, **EIGHT, **options)
        _, *same = await gateway.wait_for_records(3)
    assert tokens_of(same[0]) == tokens_of(same[1])
    assert {record.usage_source for record in same} == {"engine"}


async def test_the_answer_to_a_retry_by_the_client_is_a_request_of_its_own(tmp_path):
    """The same x-request-id twice is two requests: neither is dropped as a repetition of the other."""
    async with served(tmp_path) as gateway:
        for _ in range(2):
            await gateway.call("POST", "/v1/chat/completions", chat_body(), headers={"X-Request-Id": "again"})
        records = await gateway.wait_for_records(2)
    assert [record.request_id for record in records] == ["again", "again"]
    assert len({record.record_id for record in records}) == 2
