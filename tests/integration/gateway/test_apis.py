"""Responses, Messages, rerank, score and audio through the gateway: what a client sees, and what is recorded."""

import asyncio
import json
from contextlib import asynccontextmanager

import anthropic
import openai
import pytest

from tests.support.byte_equality import without_varying
from tests.support.fake_engines import fake_engine
from tests.support.gateways import (
    KEYS,
    authorised,
    message_body,
    response_body,
    running_gateway,
    snapshot_for,
    with_task,
)
from tests.support.raw_http import call, exchange, request_bytes

pytestmark = pytest.mark.integration

MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
SLOW = ("--time-scale", "2")
BODIES = {MESSAGES: message_body, RESPONSES: response_body}
PRICES = {"input": 150_000, "cached": 75_000, "output": 600_000}


@asynccontextmanager
async def served(tmp_path, *options, served_name="demo-chat", task="generate"):
    arguments = ("--served-model-name", served_name, "--max-model-len", "2048", "--task", task, *options)
    async with fake_engine(*arguments) as engine:
        snapshot = with_task(snapshot_for((served_name, 100, [engine.port])), task)
        async with running_gateway(tmp_path, snapshot) as gateway:
            yield engine, gateway


async def ledger_entry(engine, request_id):
    entries = (await call(engine.port, "GET", "/fake/requests")).json()["requests"]
    [entry] = [entry for entry in entries if entry["request_id"] == request_id]
    return entry


@pytest.mark.parametrize("path", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_a_client_sees_what_the_engine_alone_would_send(tmp_path, path, is_stream):
    body = BODIES[path](seed=7, stream=is_stream, x_unknown=[1])
    async with served(tmp_path, "--time-scale", "4") as (engine, gateway):
        for _ in range(20):  # a machine that lags puts two tokens into one event, in either stream
            alone = await call(engine.port, "POST", path, body, {"X-Request-Id": "same-id"})
            through = await gateway.call("POST", path, body, headers={"X-Request-Id": "same-id"})
            if without_varying(alone.body) == without_varying(through.body):
                break
    assert through.status_line == alone.status_line
    assert without_varying(through.body) == without_varying(alone.body)
    assert through.header("content-type") == alone.header("content-type")


@pytest.mark.parametrize("path", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_usage_and_cost_are_the_engines_to_the_token(tmp_path, path, is_stream):
    long = "a prompt that fills a block of the cache " * 8
    async with served(tmp_path) as (engine, gateway):
        for request_id in ("first", "again"):
            body = BODIES[path](long, stream=is_stream)
            await gateway.call("POST", path, body, headers={"X-Request-Id": request_id})
        for record in gateway.records():
            entry = await ledger_entry(engine, record.request_id)
            assert (record.input_tokens, record.output_tokens) == (entry["prompt_tokens"], entry["completion_tokens"])
            assert record.cached_input_tokens == entry["cached_tokens"]
            assert (record.outcome, record.usage_source, record.is_stream) == ("completed", "engine", is_stream)
    assert record.cached_input_tokens > 0
    assert record.cost_pico_usd == (
        (record.input_tokens - record.cached_input_tokens) * PRICES["input"]
        + record.cached_input_tokens * PRICES["cached"]
        + record.output_tokens * PRICES["output"]
    )


@pytest.mark.parametrize("path", [MESSAGES, RESPONSES])
async def test_a_client_that_leaves_mid_stream_is_charged_an_estimate_near_the_truth(tmp_path, path):
    limit = {"max_tokens": 1000} if path == MESSAGES else {"max_output_tokens": 1000}
    body = BODIES[path](stream=True, ignore_eos=True, **limit)
    async with served(tmp_path, *SLOW) as (engine, gateway):
        for words in (1, 10, 40, 20, 5):  # from which it learns how many tokens texts have
            await gateway.call("POST", path, BODIES[path]("hello " * words) | dict.fromkeys(limit, 1))
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request_bytes("POST", path, body, authorised() | {"X-Request-Id": "left"}))
        for _ in range(10):
            await asyncio.wait_for(reader.readuntil(b"\n\n\r\n"), 10)
        writer.transport.abort()
        record = (await gateway.wait_for_records(6))[-1]
        await asyncio.sleep(0.5)
        entry = await ledger_entry(engine, "left")
    assert (record.outcome, record.usage_source, entry["outcome"]) == ("client_left", "estimated", "abort")
    assert record.input_tokens == pytest.approx(entry["prompt_tokens"], rel=0.2)
    assert 4 <= record.output_tokens <= entry["completion_tokens"] <= record.output_tokens + 8
    if path == MESSAGES:  # its engine tells the prompt's tokens when it begins
        assert record.input_tokens == entry["prompt_tokens"]


async def test_a_response_has_no_first_token_before_its_first_delta(tmp_path):
    async with served(tmp_path, *SLOW) as (engine, gateway):
        assert (await call(engine.port, "POST", "/fake/faults", {"is_hanging": True})).status == 200
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request_bytes("POST", RESPONSES, response_body(stream=True), authorised()))
        await asyncio.wait_for(reader.readuntil(b"response.in_progress"), 10)
        writer.transport.abort()
        [record] = await gateway.wait_for_records(1)
    assert record.ttft_ms is None


async def test_an_engine_that_dies_ends_a_message_with_anthropics_error(tmp_path):
    async with served(tmp_path, *SLOW) as (engine, gateway):
        await call(engine.port, "POST", "/fake/faults", {"reset_after_tokens": 3})
        answer = await gateway.call("POST", MESSAGES, message_body(stream=True, max_tokens=100, ignore_eos=True))
        [record] = await gateway.wait_for_records(1)
    *_, error = answer.events()
    assert error["type"] == "error"
    assert error["error"]["type"] == "api_error"
    assert b"event: error\n" in answer.body
    assert b"[DONE]" not in answer.body
    assert (record.outcome, record.error_code, record.output_tokens) == ("failed", "engine_died", 3)


async def test_an_engine_that_dies_ends_a_response_with_a_numbered_error(tmp_path):
    async with served(tmp_path, *SLOW) as (engine, gateway):
        await call(engine.port, "POST", "/fake/faults", {"reset_after_tokens": 3})
        answer = await gateway.call(
            "POST", RESPONSES, response_body(stream=True, max_output_tokens=100, ignore_eos=True)
        )
    *_, last, error = answer.events()
    assert (error["type"], error["code"]) == ("error", "engine_died")
    assert error["sequence_number"] == last["sequence_number"] + 1
    assert b"[DONE]" not in answer.body


@pytest.mark.parametrize("path", [MESSAGES, RESPONSES])
async def test_a_model_with_another_name_on_the_engine_keeps_its_public_name(tmp_path, path):
    metadata = {"model": "inner"} if path == RESPONSES else {}
    async with served(tmp_path, served_name="inner") as (_, gateway):
        whole = await gateway.call("POST", path, BODIES[path](metadata=metadata))
        stream = await gateway.call("POST", path, BODIES[path](metadata=metadata, stream=True))
    assert whole.json()["model"] == "demo-chat"
    named = [event.get("message") or event.get("response") for event in stream.events()]
    assert {one["model"] for one in named if one} == {"demo-chat"}
    if path == RESPONSES:
        assert whole.json()["metadata"] == {"model": "inner"}
        assert named[0]["metadata"] == {"model": "inner"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"prompt": "hello world"}),
        ("/detokenize", {"tokens": [1, 2]}),
        ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "hello"}]}),
    ],
)
async def test_counting_is_recorded_and_costs_nothing(tmp_path, path, body):
    async with served(tmp_path, served_name="inner") as (engine, gateway):
        through = await gateway.call("POST", path, {"model": "demo-chat"} | body)
        alone = await call(engine.port, "POST", path, {"model": "inner"} | body)
        [record] = gateway.records()
    assert through.json() == alone.json()
    assert (record.outcome, record.usage_source, record.cost_pico_usd) == ("completed", "none", 0)
    assert record.endpoint_id


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": ["a cat", "a car"]}),
        *[(path, {"query": "cat", "documents": ["a kitten", "a car"]}) for path in ("/rerank", "/v1/rerank")],
        ("/v2/rerank", {"query": "cat", "documents": ["a kitten", "a car"], "top_n": 1}),
        *[(path, {"text_1": "cat", "text_2": ["a kitten", "a car"]}) for path in ("/score", "/v1/score")],
    ],
)
async def test_pooling_is_metered_by_its_input(tmp_path, path, body):
    async with served(tmp_path, served_name="inner", task="embed") as (engine, gateway):
        through = await gateway.call("POST", path, {"model": "demo-chat"} | body, headers={"X-Request-Id": "r"})
        alone = await call(engine.port, "POST", path, {"model": "inner"} | body, {"X-Request-Id": "r"})
        [record] = gateway.records()
    public = alone.body.replace(b'"model":"inner"', b'"model":"demo-chat"')
    assert without_varying(through.body) == without_varying(public)
    usage = through.json()["usage"]
    assert (record.usage_source, record.input_tokens, record.output_tokens) == ("engine", usage["prompt_tokens"], 0)


@pytest.mark.parametrize(
    ("headers", "body", "status", "kind", "code"),
    [
        ({}, message_body(), 401, "authentication_error", "missing_api_key"),
        ({"x-api-key": "wrong"}, message_body(), 401, "authentication_error", "invalid_api_key"),
        ({"x-api-key": KEYS["gold"]}, message_body(model="nope"), 404, "not_found_error", "model_not_found"),
        ({"x-api-key": KEYS["gold"]}, [], 400, "invalid_request_error", "invalid_json"),
    ],
)
async def test_our_errors_on_messages_have_anthropics_shape(tmp_path, headers, body, status, kind, code):  # noqa: PLR0917 - a table
    async with served(tmp_path) as (_, gateway):
        answer = await call(gateway.port, "POST", MESSAGES, body, headers)
    assert answer.status == status
    assert set(answer.json()) == {"type", "error"}
    assert answer.json()["error"]["type"] == kind
    assert answer.header("x-error-code") == code


async def test_the_anthropic_sdk_works_as_with_the_original(tmp_path):
    async with served(tmp_path, *SLOW) as (_, gateway):
        client = anthropic.AsyncAnthropic(
            base_url=f"http://127.0.0.1:{gateway.port}", api_key=KEYS["gold"], max_retries=0
        )
        asked = {"model": "demo-chat", "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]}
        whole = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            final = await stream.get_final_message()
        counted = await client.messages.count_tokens(model="demo-chat", messages=asked["messages"])
        with pytest.raises(anthropic.NotFoundError):
            await client.messages.create(**asked | {"model": "nope"})
        await client.close()
        records = gateway.records()
    assert final.content[0].text == whole.content[0].text
    assert whole.usage.input_tokens + whole.usage.cache_creation_input_tokens == counted.input_tokens
    assert whole._request_id == records[0].request_id
    assert [record.status for record in records] == [200, 200, 200, 404]


async def test_the_openai_sdk_has_its_responses(tmp_path):
    async with served(tmp_path, *SLOW) as (_, gateway):
        client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key=KEYS["gold"], max_retries=0)
        whole = await client.responses.create(model="demo-chat", input="Hi", metadata={"team": "red"})
        async with client.responses.stream(model="demo-chat", input="Hi") as stream:
            final = await stream.get_final_response()
        await client.close()
        records = gateway.records()
    assert whole.output_text == final.output_text
    assert records[0].tags == {"team": "red"}
    assert [record.output_tokens for record in records] == [whole.usage.output_tokens, final.usage.output_tokens]


async def test_labels_become_tags_and_a_trace_goes_on(tmp_path):
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with (
        echoing_engine() as (port, seen),
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [port]))) as gateway,
    ):
        labels = {"X-Gateway-Inference-Objective": "critical", "X-Workflow-Id": "w1", "traceparent": trace}
        answer = await gateway.call("POST", RESPONSES, response_body(service_tier="flex"), headers=labels)
        await gateway.call("POST", RESPONSES, response_body())
        tagged, plain = gateway.records()
    assert tagged.tags == {"x-gateway-inference-objective": "critical", "x-workflow-id": "w1", "service_tier": "flex"}
    assert plain.tags == {}
    assert f"\r\ntraceparent: {trace}\r\n".encode() in seen[0]
    assert seen[0].lower().count(b"traceparent:") == seen[1].count(b"traceparent: 00-") == 1
    assert answer.header("server-timing").startswith("queue;dur=")
    assert b"authorization" not in seen[0].lower()


BOUNDARY = "aB-c"


def form(model: str) -> bytes:
    sound = b"RIFF\x00\xff\r\n\r\n" * 1000
    return b"".join(
        (
            b'--aB-c\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + sound + b"\r\n",
            b'--aB-c\r\nContent-Disposition: form-data; name="model"\r\n\r\n' + model.encode() + b"\r\n",
            b"--aB-c--\r\n",
        )
    )


async def transcribe(gateway, body: bytes, content_type: str = f"multipart/form-data; boundary={BOUNDARY}"):
    headers = authorised() | {"Content-Type": content_type, "Content-Length": str(len(body))}
    return await exchange(gateway.port, request_bytes("POST", "/v1/audio/transcriptions", None, headers) + body)


async def test_a_transcription_passes_byte_for_byte_with_the_engines_model_name(tmp_path):
    async with (
        echoing_engine() as (port, seen),
        running_gateway(tmp_path, snapshot_for(("inner", 100, [port]))) as gateway,
    ):
        answer = await transcribe(gateway, form("demo-chat"))
        [record] = gateway.records()
    assert answer.status == 200
    assert seen[0].partition(b"\r\n\r\n")[2] == form("inner")
    assert (record.public_model, record.usage_source, record.input_tokens) == ("demo-chat", "estimated", 0)
    assert record.output_tokens == len(answer.body) // 4


async def test_a_form_that_is_none_is_refused_and_recorded(tmp_path):
    async with served(tmp_path) as (_, gateway):
        answer = await transcribe(gateway, b"{}", "application/json")
        missing = await transcribe(gateway, form(""))
        records = gateway.records()
    assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_form")
    assert (missing.status, missing.json()["error"]["code"]) == (400, "missing_model")
    assert [record.outcome for record in records] == ["rejected", "rejected"]


@asynccontextmanager
async def echoing_engine():
    """Answers every request with the same small object, and keeps what it was sent."""
    seen: list[bytes] = []
    answer = json.dumps({"text": "hello there", "usage": {"type": "duration", "seconds": 1}}).encode()

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        seen.append(head + await reader.readexactly(length))
        lines = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        writer.write(lines % len(answer) + answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], seen
