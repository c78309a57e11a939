"""The openai SDK asks the gateway, and the engine alone: streams, tools, structured output, embeddings, exceptions."""

import base64
import json
import struct
from contextlib import asynccontextmanager

import openai
import pydantic
import pytest

from tests.support.batches import sdk
from tests.support.fake_engines import fake_engine
from tests.support.gateways import running_gateway, snapshot_for, with_task
from tests.support.raw_http import call
from tests.support.scripted_engine import scripted_engine, stream, whole
from workers.gateway import errors

pytestmark = pytest.mark.integration

ASK = {"model": "demo-chat", "messages": [{"role": "user", "content": "hello"}]}


@asynccontextmanager
async def clients(tmp_path, *, script=None, served_name="demo-chat", task="generate", options=()):
    """(through the gateway, to the engine alone)."""
    engines = scripted_engine(script) if script else fake_engine(
        "--served-model-name", served_name, "--task", task, *options
    )  # fmt: skip
    async with engines as engine:
        snapshot = with_task(snapshot_for((served_name, 100, [engine.port])), task)
        running = running_gateway(tmp_path, snapshot)
        async with running as gateway, sdk(gateway.port) as through, sdk(engine.port) as alone:
            yield through, alone


def event(**fields):
    shown = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "demo-chat"}
    return b"data: " + json.dumps(shown | fields).encode() + b"\n\n"


def delta(finish=None, **fields):
    return event(choices=[{"index": 0, "delta": fields, "finish_reason": finish}])


def called(arguments, **fields):
    return {"index": 0, "function": {"arguments": arguments} | fields.pop("function", {})} | fields


TOOL_STREAM = stream(
    [
        delta(role="assistant", content=""),
        delta(tool_calls=[called("", id="call_1", type="function", function={"name": "weather"})]),
        delta(tool_calls=[called('{"city": "Zü')]),
        delta(tool_calls=[called('rich"}')]),
        delta("tool_calls"),
        b"data: [DONE]\n\n",
    ]
)


async def test_tools_come_in_pieces_and_are_put_together(tmp_path):
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    async with clients(tmp_path, script=TOOL_STREAM) as (through, alone):
        messages = []
        for client in (through, alone):
            async with client.chat.completions.stream(**ASK, tools=tools) as events:
                completion = await events.get_final_completion()
            messages.append(completion.choices[0].message.model_dump())
    assert messages[0] == messages[1]
    [call] = messages[0]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Zürich"}


class Person(pydantic.BaseModel):
    name: str
    age: int


async def test_structured_output_is_parsed(tmp_path):
    message = {"role": "assistant", "content": '{"name":"Ada","age":36}'}
    answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "demo-chat"}
    answer |= {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    async with clients(tmp_path, script=whole(json.dumps(answer).encode())) as (through, alone):
        for client in (through, alone):
            completion = await client.chat.completions.parse(**ASK, response_format=Person)
            assert completion.choices[0].message.parsed == Person(name="Ada", age=36)


async def test_several_choices_of_a_stream_are_told_apart(tmp_path):
    async with clients(tmp_path) as (through, alone):
        texts = []
        for client in (through, alone):
            chunks = await client.chat.completions.create(**ASK, n=3, stream=True, max_tokens=6, seed=1)
            by_choice = {0: "", 1: "", 2: ""}
            async for chunk in chunks:
                for choice in chunk.choices:
                    by_choice[choice.index] += choice.delta.content or ""
            texts.append(by_choice)
    assert texts[0] == texts[1]
    assert all(texts[0].values())


async def test_the_name_of_an_adapter_is_a_model_like_any_other(tmp_path):
    async with clients(tmp_path, served_name="org/adapter-1:v2") as (through, _):
        answer = await through.chat.completions.create(**ASK, max_tokens=3)
        chunks = [chunk async for chunk in await through.chat.completions.create(**ASK, max_tokens=3, stream=True)]
    assert answer.model == "demo-chat"
    assert {chunk.model for chunk in chunks} == {"demo-chat"}


async def test_embeddings_are_the_same_as_numbers_and_in_base64(tmp_path):
    async with clients(tmp_path, task="embed") as (through, alone):
        ask = {"model": "demo-chat", "input": ["a", "b"]}
        numbers = await through.embeddings.create(**ask, encoding_format="float")
        default = await through.embeddings.create(**ask)  # the SDK asks for base64 and decodes it
        raw = await through.embeddings.with_raw_response.create(**ask, encoding_format="base64")
        other = await alone.embeddings.create(**ask)
    assert [one.embedding for one in default.data] == [one.embedding for one in other.data]
    packed = base64.b64decode(json.loads(raw.text)["data"][0]["embedding"])
    values = struct.unpack(f"<{len(packed) // 4}f", packed)
    assert values == pytest.approx(numbers.data[0].embedding, rel=1e-6)


async def error_of(ask):
    with pytest.raises(openai.APIError) as caught:
        await ask
    return caught.value


async def test_errors_of_the_engine_are_the_same_exceptions(tmp_path):
    wrong = [{"temperature": -1}, {"max_tokens": -1}, {"logprobs": True, "top_logprobs": 99}]
    async with clients(tmp_path) as (through, alone):
        for fields in wrong:
            seen, expected = [await error_of(c.chat.completions.create(**ASK, **fields)) for c in (through, alone)]
            assert type(seen) is type(expected) is openai.BadRequestError
            assert (seen.body, seen.param, seen.code) == (expected.body, expected.param, expected.code)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("403 Forbidden", openai.PermissionDeniedError),
        ("409 Conflict", openai.ConflictError),
        ("422 Unprocessable Entity", openai.UnprocessableEntityError),
        ("429 Too Many Requests", openai.RateLimitError),
        ("500 Internal Server Error", openai.InternalServerError),
    ],
)
async def test_each_status_of_an_engine_has_its_exception(tmp_path, status, kind):
    async with clients(tmp_path, script=whole(b'{"error":{"message":"no"}}', status=status)) as (through, _):
        assert type(await error_of(through.chat.completions.create(**ASK))) is kind


async def test_our_own_errors_are_exceptions_with_our_codes(tmp_path):
    async with clients(tmp_path) as (through, _):
        unknown = await error_of(through.chat.completions.create(**ASK | {"model": "gpt-none"}))
        wrong_task = await error_of(through.embeddings.create(model="demo-chat", input="a"))
        nobody = through.with_options(api_key="ty-none")
        unauthorised = await error_of(nobody.chat.completions.create(**ASK))
        nowhere = await error_of(through.get("/nothing", cast_to=object))
    assert (type(unknown), unknown.code) == (openai.NotFoundError, "model_not_found")
    assert (type(wrong_task), wrong_task.code) == (openai.BadRequestError, "wrong_task")
    assert (type(unauthorised), unauthorised.code) == (openai.AuthenticationError, "invalid_api_key")
    assert (type(nowhere), nowhere.code) == (openai.NotFoundError, "unknown_url")


async def test_an_error_inside_a_stream_is_an_exception_too(tmp_path):
    pieces = [delta(role="assistant", content="a"), b'data: {"error":{"message":"out of memory","code":500}}\n\n']
    async with clients(tmp_path, script=stream([*pieces, b"data: [DONE]\n\n"])) as (through, alone):
        for client in (through, alone):
            chunks = await client.chat.completions.create(**ASK, stream=True)
            with pytest.raises(openai.APIError, match="out of memory"):
                _ = [chunk async for chunk in chunks]


async def test_request_ids_are_where_the_sdk_looks_for_them(tmp_path):
    async with clients(tmp_path) as (through, _):
        answer = await through.chat.completions.create(**ASK, extra_headers={"X-Request-Id": "mine"})
        refusal = await error_of(through.chat.completions.create(**ASK | {"model": "gpt-none"}))
    assert answer._request_id == "mine"
    assert refusal.request_id


async def test_clients_that_ask_for_health_before_they_begin_are_told(tmp_path):
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, []))) as gateway:
        healthy = await call(gateway.port, "GET", "/health")
        head = await call(gateway.port, "HEAD", "/health")
        posted = await call(gateway.port, "POST", "/health")
        gateway.service._surface.stop_reason = errors.shutting_down()
        stopping = await call(gateway.port, "GET", "/health")
        gateway.service._surface.stop_reason = None
    assert (healthy.status, healthy.body, head.status, posted.status) == (200, b"", 200, 405)
    assert stopping.status == 503
