"""What went wrong in other gateways' metering, rebuilt against this one: each case names the report it comes from."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from apps.usage.policies.checking import problem_of
from tests.support.fake_engines import fake_engine
from tests.support.gateways import (
    authorised,
    chat_body,
    message_body,
    response_body,
    running_gateway,
    snapshot_for,
    with_task,
)
from tests.support.raw_http import request_bytes
from tests.support.scripted_engine import scripted_engine, stream, whole
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


def without_names(record):
    """Those of the test's tenants and engines are no ids."""
    names = ("tenant_id", "key_id", "user_id", "version_id", "deployment_id", "endpoint_id", "node_id")
    return msgspec.structs.replace(record, **dict.fromkeys(names, ""))


def whole_answer(usage):
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "a b c"}}
    told = {} if usage is None else {"usage": usage}
    return whole(msgspec.json.encode({"id": "x", "object": "chat.completion", "choices": [choice], **told}))


@asynccontextmanager
async def served_by(script, tmp_path, *rules):
    async with scripted_engine(script) as engine:
        snapshot = priced(snapshot_for(("demo-chat", 100, [engine.port])), *rules)
        async with running_gateway(tmp_path, snapshot) as gateway:
            yield gateway, engine


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 90}}, (10, 10, 3)),
        ({"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": -5}}, (10, 0, 3)),
        ({"prompt_tokens": -10, "completion_tokens": 3}, (0, 0, 3)),
        ({"prompt_tokens": 10, "completion_tokens": -3}, (10, 0, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": None}, (10, 0, 3)),
    ],
    ids=["more cached than input", "negative cached", "negative input", "negative output", "no details"],
)
async def test_numbers_that_cannot_be_make_no_negative_cost(tmp_path, usage, counted):
    """langchain-ai/langsmith-sdk#1858, KonghaYao/peri#74: more cached than asked, and the bill below nothing."""
    async with served_by(whole_answer(usage), tmp_path) as (gateway, _):
        assert (await gateway.chat()).status == 200
        (record,) = await gateway.wait_for_records(1)
    fresh, cached, output = counted[0] - counted[1], counted[1], counted[2]
    assert tokens_of(record) == counted
    assert record.cost_pico_usd == fresh * 10**6 + cached * 10**5 + output * 10**8


async def test_a_usage_of_nothing_is_nothing(tmp_path):
    async with served_by(whole_answer({"prompt_tokens": 0, "completion_tokens": 0}), tmp_path) as (gateway, _):
        assert (await gateway.chat("word " * 50)).status == 200
        (record,) = await gateway.wait_for_records(1)
    assert (tokens_of(record), record.usage_source, record.cost_pico_usd) == ((0, 0, 0), "engine", 0)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": "many"}, {"prompt_tokens": 1e300}, [1, 2], "12"])
async def test_an_answer_whose_usage_cannot_be_read_is_charged_by_estimate_and_not_lost(tmp_path, usage):
    """BerriAI/litellm#36185, #13797: what the engine said in another form was charged at nothing."""
    async with served_by(whole_answer(usage), tmp_path) as (gateway, _):
        assert (await gateway.chat("word " * 50)).status == 200
        (record,) = await gateway.wait_for_records(1)
    assert (record.outcome, record.usage_source) == ("completed", "estimated")
    assert min(record.input_tokens, record.output_tokens, record.cost_pico_usd) > 0


@pytest.mark.parametrize("ttft_ms", [-5.0, 1e12, 0.0])
async def test_a_time_that_cannot_be_is_unknown_and_makes_no_record_that_nobody_can_store(tmp_path, ttft_ms):
    """A negative one puts the whole record into quarantine, tokens, cost and all."""
    usage = {"prompt_tokens": 10, "completion_tokens": 3}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "a b c"}}
    body = {"choices": [choice], "usage": usage, "metrics": {"time_to_first_token_ms": ttft_ms}}
    async with served_by(whole(msgspec.json.encode(body)), tmp_path) as (gateway, _):
        assert (await gateway.chat()).status == 200
        (record,) = await gateway.wait_for_records(1)
    assert problem_of(without_names(record)) is None
    assert (record.ttft_ms is None) == (ttft_ms != 0)


async def test_what_the_engine_rejects_is_asked_and_counted_once(tmp_path):
    """BitFun-SIG/taiji-plugin-library#234: a 400 was tried again, and charged each time."""
    error = msgspec.json.encode({"error": {"message": "no", "type": "BadRequestError", "code": 400}})
    async with served_by(whole(error, status="400 Bad Request"), tmp_path) as (gateway, engine):
        assert (await gateway.chat()).status == 400
        (record,) = await gateway.wait_for_records(1)
    assert len(engine.seen) == 1
    assert (record.outcome, record.attempts, record.cost_pico_usd) == ("rejected", 1, 0)


async def test_an_answer_without_a_word_is_an_answer(tmp_path):
    """ayunis-core/ayunis-core#1270: an empty completion was asked for again, and both were counted."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ""}}
    usage = {"prompt_tokens": 10, "completion_tokens": 1}
    body = msgspec.json.encode({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})
    async with served_by(whole(body), tmp_path) as (gateway, engine):
        assert (await gateway.chat()).status == 200
        (record,) = await gateway.wait_for_records(1)
    assert len(engine.seen) == 1
    assert tokens_of(record) == (10, 0, 1)


BROKEN = {
    "no model of this name": {"model": "no-such-model"},
    "a negative length": {"max_tokens": -1},
    "a prompt beyond the context": {"messages": [{"role": "user", "content": "word " * 5000}]},
    "no messages": {"messages": "hello"},
}


@pytest.mark.parametrize("fault", BROKEN)
async def test_a_request_that_goes_wrong_gives_its_place_back(tmp_path, fault):
    """BerriAI/litellm#1477, #20256: after the first mistake the key was at its limit for good."""
    rule = LimitRule(limit_id="places", scope="key", subject="*", kind="concurrent_requests", amount=1)
    async with served(tmp_path, rule) as gateway:
        for _ in range(3):
            answer = await gateway.call("POST", "/v1/chat/completions", chat_body() | BROKEN[fault])
            assert answer.status in {400, 404}
        assert (await gateway.chat()).status == 200


async def test_an_engine_that_fails_gives_the_place_back(tmp_path):
    """BerriAI/litellm#20256: each 502 of the engine took a place away."""
    rule = LimitRule(limit_id="places", scope="key", subject="*", kind="concurrent_requests", amount=1)
    error = whole(b'{"error":{"message":"broken"}}', status="500 Internal Server Error")
    async with served_by(error, tmp_path, rule) as (gateway, _):
        statuses = [(await gateway.chat()).status for _ in range(5)]
    assert 429 not in statuses
    assert {status // 100 for status in statuses} == {5}


async def test_each_choice_is_reserved(tmp_path):
    """BerriAI/litellm#27509: what `n` multiplies passed the budget as one."""
    amount = 3 * ONE_ANSWER_NANO_USD
    rule = LimitRule(limit_id="money", scope="key", subject="*", kind="cost_total", amount=amount)
    async with served(tmp_path, rule) as gateway:
        many = await gateway.chat(n=4, **EIGHT)
        few = await gateway.chat(n=2, **EIGHT)
        _, record = await gateway.wait_for_records(2)
    assert (many.status, few.status) == (402, 200)
    assert record.output_tokens == 16 == few.json()["usage"]["completion_tokens"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": ["one two three", "four"]}),
        ("/v1/rerank", {"query": "one two", "documents": ["three four five", "six"]}),
        ("/v1/score", {"text_1": "one two", "text_2": ["three four five", "six"]}),
    ],
)
async def test_what_generates_nothing_is_charged_by_its_input_and_as_a_request(tmp_path, path, body):
    """BerriAI/litellm#13797, #35194, #36185, #37896: rerank and embeddings were free, and at no limit."""
    price = Price(input_pico_usd=10**6, request_pico_usd=7)
    rule = LimitRule(limit_id="money", scope="key", subject="*", kind="cost_total", amount=1)
    async with fake_engine("--served-model-name", "demo-chat", "--task", "embed") as engine:
        snapshot = with_task(snapshot_for(("demo-chat", 100, [engine.port])), "embed")
        versions = [msgspec.structs.replace(version, price=price) for version in snapshot.versions]
        async with running_gateway(tmp_path, msgspec.structs.replace(snapshot, versions=versions)) as gateway:
            answer = await gateway.call("POST", path, {"model": "demo-chat"} | body)
            (record,) = await gateway.wait_for_records(1)
            limited = [TenantLimits(tenant_id="gold", rules=[rule])]
            gateway.publish(msgspec.structs.replace(snapshot, generation=2, versions=versions, limits=limited))
            await gateway.wait_for_generation(2)
            refused = await gateway.call("POST", path, {"model": "demo-chat"} | body)
    usage = answer.json()["usage"]
    assert tokens_of(record) == (usage.get("prompt_tokens") or usage["total_tokens"], 0, 0)
    assert record.input_tokens > 0
    assert record.cost_pico_usd == record.input_tokens * 10**6 + 7
    assert refused.status == 402


async def test_a_client_that_leaves_at_the_first_byte_pays_for_its_prompt_and_what_was_made(tmp_path):
    """BerriAI/litellm#30788, #30667: an interrupted stream was free."""
    async with served(tmp_path) as gateway:
        body = chat_body(LONG_TEXT, stream=True, max_tokens=1500, min_tokens=1500, ignore_eos=True)
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request_bytes("POST", "/v1/chat/completions", body, authorised()))
        await reader.readuntil(b"data: ")
        writer.transport.abort()
        (record,) = await gateway.wait_for_records(1)
        whole_one = await gateway.chat(LONG_TEXT, **EIGHT)
    assert record.outcome == "client_left"
    assert record.input_tokens == whole_one.json()["usage"]["prompt_tokens"]
    assert 1 <= record.output_tokens < 1500
    assert record.cost_pico_usd == record.input_tokens * 10**6 + record.output_tokens * 10**8


def chat_event(**fields):
    return b"data: " + msgspec.json.encode({"id": "x", "object": "chat.completion.chunk"} | fields) + b"\n\n"


def named_event(name, **fields):
    return f"event: {name}\n".encode() + b"data: " + msgspec.json.encode({"type": name} | fields) + b"\n\n"


COUNTED = {"input_tokens": 10, "output_tokens": 3}
TEXT = {"index": 0, "delta": {"content": "a b c"}, "finish_reason": None}
LAST_WORDS = {
    "/v1/chat/completions": [
        chat_event(choices=[TEXT]),
        chat_event(choices=[TEXT | {"delta": {}, "finish_reason": "stop"}]),
        chat_event(choices=[], usage={"prompt_tokens": 10, "completion_tokens": 3}),
        b"data: [DONE]\n\n",
    ],
    "/v1/messages": [
        named_event("message_start", message={"usage": {"input_tokens": 10, "output_tokens": 0}}),
        named_event("message_delta", delta={"stop_reason": "end_turn"}, usage=COUNTED),
        named_event("message_stop"),
    ],
    "/v1/responses": [
        named_event("response.output_text.delta", delta="a b c"),
        named_event("response.completed", response={"usage": COUNTED | {"total_tokens": 13}}),
    ],
}

LAST_MARKS = {
    "/v1/chat/completions": b"[DONE]\n\n",
    "/v1/messages": b'"message_stop"}\n\n',
    "/v1/responses": b'"total_tokens":13}}}\n\n',
}


@pytest.mark.parametrize("path", LAST_WORDS)
@pytest.mark.parametrize("lacks", [0, 1], ids=["the last event", "the event before"])
async def test_who_closes_at_the_last_event_has_had_the_whole_answer(tmp_path, path, lacks):
    """SDKs do so, and what they had paid for and got was in the reports as abandoned."""
    events = LAST_WORDS[path][: len(LAST_WORDS[path]) - lacks]
    async with served_by(stream(events)[:-1], tmp_path) as (gateway, _):  # the end of the body never comes
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request_bytes("POST", path, ROUTES[path]("hello", stream=True), authorised()))
        await reader.readuntil(b"data: " if lacks else LAST_MARKS[path])
        writer.transport.abort()
        (record,) = await gateway.wait_for_records(1)
    assert record.outcome == ("client_left" if lacks else "completed")
