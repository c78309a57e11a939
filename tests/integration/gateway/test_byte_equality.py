"""Whatever an engine says, and however it is cut up, a client sees the same bytes with the gateway as without."""
# ruff: noqa: E501 - what an engine sends is easier to read on a line of its own

import asyncio
import json
import random
from contextlib import asynccontextmanager

import msgspec
import pytest

from tests.support.gateways import authorised, chat_body, running_gateway, snapshot_for
from tests.support.raw_http import call, exchange, request_bytes
from tests.support.scripted_engine import scripted_engine, stream, whole
from workers.contracts.snapshot import Route, RouteTarget

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"


def event(fields):
    return (
        b"data: "
        + (fields if isinstance(fields, bytes) else json.dumps(fields, separators=(",", ":")).encode())
        + b"\n\n"
    )


def chunk(delta, *, index=0, finish=None, **fields):
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    shown = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "demo-chat"}
    return event(shown | {"choices": [choice | fields]})


ROLE = {"role": "assistant", "content": ""}
DONE = b"data: [DONE]\n\n"
TOOL = [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}]
TOP = {"content": [{"token": "\u00e9", "logprob": -0.5, "bytes": [195, 169], "top_logprobs": []}]}

STREAMS = {
    "n choices, interleaved": [
        chunk(ROLE), chunk(ROLE, index=1), chunk({"content": "a"}, index=1), chunk({"content": "b"}),
        chunk({"content": ""}, finish="stop"), chunk({}, index=1, finish="length"), DONE,
    ],
    "tools in pieces": [
        chunk(ROLE), chunk({"tool_calls": TOOL}),
        *(chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in ('{"a', '":"}{', '"}')),
        chunk({"content": ""}, finish="tool_calls"), DONE,
    ],
    "logprobs": [chunk(ROLE), chunk({"content": "\u00e9"}, logprobs=TOP), chunk({}, finish="stop"), DONE],
    "reasoning and refusal": [
        chunk(ROLE), chunk({"reasoning_content": "hm"}), chunk({"refusal": "no"}), chunk({}, finish="stop"), DONE,
    ],
    "empty deltas": [chunk(ROLE), chunk({}), chunk({"content": ""}), chunk({"content": None}), chunk({}, finish="stop"), DONE],
    "text as it stands in UTF-8": [
        event('{"model":"demo-chat","choices":[{"index":0,"delta":{"content":"\U0001f30d\u00e9\u2028"}}]}'.encode()), DONE,
    ],
    "escapes": [event(rb'{"model":"demo-chat","choices":[{"index":0,"delta":{"content":"\ud83c\udf0d\u0000\n\n\"data: {"}}]}'), DONE],
    "a text that looks like an event": [chunk({"content": 'data: {"error": 1}\n\ndata: [DONE]\n\n,"usage":{"x":1}'}), DONE],
    "comments that keep it alive": [b": ping\n\n", chunk(ROLE), b":\n\n", chunk({"content": "a"}), b": pong\n\n", DONE],
    "an error inside": [chunk(ROLE), event({"error": {"message": "out of memory", "code": 500}}), DONE],
    "an error and nothing else": [event({"error": {"message": "busy", "code": 503}}), DONE],
    "weird numbers": [event(b'{"model":"demo-chat","choices":[{"index":0,"delta":{"content":"a"}}],"x":1e400,"y":NaN,"z":123456789012345678901}'), DONE],
    "keys that come twice": [event(b'{"model":"demo-chat","choices":[{"index":0,"index":1,"delta":{"content":"a"}}],"a":1,"a":2}'), DONE],
    "no end mark": [chunk(ROLE), chunk({"content": "a"}, finish="stop")],
    "half an event at the end": [chunk(ROLE), chunk({"content": "a"})[:-1]],
    "nothing": [],
    "only the end mark": [DONE],
    "something else than JSON": [b"data: hello\n\n", b"event: ping\ndata: {}\n\n", b"id: 7\nretry: 5\n\n", DONE],
    "several lines of data": [b"data: {\ndata: }\n\n", DONE],
    "CRLF": [b'data: {"choices":[]}\r\n\r\n', b"data: [DONE]\r\n\r\n"],
}  # fmt: skip


def cut(events, how):
    joined = b"".join(events)
    if how == "events":
        return events
    if how == "at once":
        return [joined] if joined else []
    if how == "bytes":
        return [joined[at : at + 1] for at in range(len(joined))]
    at, pieces, chance = 0, [], random.Random(len(joined))  # noqa: S311 - a seeded shuffle
    while at < len(joined):
        size = chance.randint(1, 40)
        pieces.append(joined[at : at + size])
        at += size
    return pieces


@asynccontextmanager
async def gateway_before(tmp_path, script, served_name="demo-chat"):
    async with scripted_engine(script) as engine:
        snapshot = snapshot_for((served_name, 100, [engine.port]))
        async with running_gateway(tmp_path, snapshot) as gateway:
            yield engine, gateway


async def ask_both(tmp_path, engine, body, *, path=CHAT, headers=None):
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as gateway:
        through = await gateway.call("POST", path, body, headers=headers)
    alone = await call(engine.port, "POST", path, body, headers)
    return alone, through


def assert_same(alone, through):
    """But for the words after a status, which HTTP/2 has dropped and nobody reads."""
    assert through.status == alone.status
    assert through.body == alone.body
    assert through.header("content-type") == alone.header("content-type")


@pytest.mark.parametrize("how", ["events", "at once", "anyhow"])
@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_passes_as_it_is(tmp_path, name, how):
    async with scripted_engine(stream(cut(STREAMS[name], how))) as engine:
        alone, through = await ask_both(
            tmp_path, engine, chat_body(stream=True, stream_options={"include_usage": True})
        )
    assert alone.body == b"".join(STREAMS[name])
    assert_same(alone, through)


@pytest.mark.parametrize("name", ["tools in pieces", "text as it stands in UTF-8", "escapes"])
async def test_a_stream_passes_byte_by_byte(tmp_path, name):
    async with scripted_engine(stream(cut(STREAMS[name], "bytes"))) as engine:
        alone, through = await ask_both(tmp_path, engine, chat_body(stream=True))
    assert_same(alone, through)


@pytest.mark.parametrize("name", [name for name in STREAMS if name != "CRLF"])
async def test_a_stream_of_a_model_with_another_name_differs_in_that_alone(tmp_path, name):
    pieces = [piece.replace(b'"model":"demo-chat"', b'"model":"adapter/\xc3\xa9-7"') for piece in STREAMS[name]]
    async with scripted_engine(stream(cut(pieces, "anyhow"))) as engine:
        snapshot = snapshot_for(("adapter/é-7", 100, [engine.port]))
        async with running_gateway(tmp_path, snapshot) as gateway:
            through = await gateway.chat(stream=True)
    assert through.body == b"".join(STREAMS[name])
    assert json.loads(engine.seen[0].partition(b"\r\n\r\n")[2])["model"] == "adapter/é-7"


WHOLES = {
    "an answer": whole(b'{"id":"x","model":"demo-chat","choices":[],"usage":{"prompt_tokens":1}}'),
    "space around": whole(b'\n {"model": "demo-chat",\n\t"choices": [ ] }\r\n \n'),
    "weird numbers": whole(b'{"model":"demo-chat","a":1e400,"b":-0,"c":NaN,"d":123456789012345678901234567890,"e":1.10}'),
    "keys that come twice": whole(b'{"a":1,"a":2,"model":"demo-chat","usage":null,"usage":{}}'),
    "an array": whole(b"[1,2]"),
    "a text": whole(b'"text"'),
    "no JSON": whole(b"OK", content_type="text/plain"),
    "nothing": whole(b""),
    "no content": [b"HTTP/1.1 204 No Content\r\n\r\n"],
    "an odd error": whole(b"<h1>Bad gateway</h1>", status="502 Bad Gateway", content_type="text/html"),
    "an error as text": whole(b"Internal Server Error", status="500 Internal Server Error", content_type="text/plain"),
    "a refusal": whole(b'{"error":{"message":"no","code":400}}\n', status="400 Bad Request", content_type="application/problem+json"),
    "an empty refusal": whole(b"", status="422 Unprocessable Entity"),
    "a status of its own": whole(b"{}", status="529 Overloaded"),
    "a redirect": [b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /v1/chat/completions/\r\ncontent-length: 0\r\n\r\n"],
    "no content type": [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"],
    "bytes": whole(bytes(range(256)), content_type="application/octet-stream"),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLES)
async def test_an_answer_passes_as_it_is(tmp_path, name):
    async with scripted_engine(WHOLES[name]) as engine:
        alone, through = await ask_both(tmp_path, engine, chat_body())
    assert_same(alone, through)


@pytest.mark.parametrize("name", WHOLES)
async def test_an_answer_of_a_model_with_another_name_differs_in_that_alone(tmp_path, name):
    script = [piece.replace(b"demo-chat", b"served/7b") for piece in WHOLES[name]]
    async with (
        scripted_engine(script) as engine,
        running_gateway(tmp_path, snapshot_for(("served/7b", 100, [engine.port]))) as gateway,
    ):
        through = await gateway.chat()
        alone = await call(engine.port, "POST", CHAT, chat_body())
    assert through.body == alone.body.replace(b"served/7b", b"demo-chat")
    assert through.status == alone.status


async def test_only_the_models_own_name_is_changed(tmp_path):
    answer = (
        b'{"metadata":{"model":"served"},"text":"\\"model\\":\\"served\\"","x":[{"model":"served"}],"model" : "served"}'
    )
    async with gateway_before(tmp_path, whole(answer), "served") as (_, gateway):
        through = await gateway.chat()
    assert through.body == answer[: -len(b'"served"}')] + b'"demo-chat"}'


REQUESTS = {
    "unknown fields": b'{"model":"demo-chat","x_new":{"a":[1,null,true]},"messages":[]}',
    "weird numbers": b'{"model":"demo-chat","seed":123456789012345678901234567890,"a":1e400,"b":1.10,"c":-0}',
    "NaN": b'{"model":"demo-chat","temperature":NaN,"b":Infinity}',
    "keys that come twice": b'{"a":1,"model":"demo-chat","a":2}',
    "space around": b'\n\t {"model": "demo-chat" }\r\n  ',
    "escapes": rb'{"mod\u0065l":"demo\u002dchat","messages":[{"content":"\ud83c\udf0d \ud800 \u0000 \/"}]}',
    "UTF-8": '{"model":"demo-chat","x":"\U0001f30d é \u2028"}'.encode(),
    "images and sound": json.dumps(
        {
            "model": "demo-chat",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "what?"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5000, "detail": "low"}},
                        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
                        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AA"}, "uuid": None},
                        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA"}},
                    ],
                }
            ],
        }
    ).encode(),
    "a schema": b'{"model":"demo-chat","response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"properties":{"model":{"const":1e2}}}}}}',
    "guided": b'{"model":"demo-chat","structured_outputs":{"regex":"\\\\d+"},"chat_template_kwargs":{"enable_thinking":false}}',
    "UTF-16": '{"model":"demo-chat","x":"é"}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + b'{"model":"demo-chat"}',
}  # fmt: skip


CODECS = {"UTF-16": "utf-16", "a byte order mark": "utf-8-sig"}


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_reaches_the_engine_as_it_is(tmp_path, name):
    async with gateway_before(tmp_path, whole(b"{}")) as (engine, gateway):
        answer = await exchange(gateway.port, raw_request(REQUESTS[name]))
    assert answer.status == 200, answer.body
    assert engine.seen[0].partition(b"\r\n\r\n")[2] == REQUESTS[name]


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_that_must_be_changed_means_the_same(tmp_path, name, is_stream):
    """As Python's parser reads it, which is the engine's."""
    codec = CODECS.get(name, "utf-8")
    body = REQUESTS[name]
    if is_stream:
        body = (body.decode(codec).rstrip()[:-1].rstrip() + ',"stream":true}').encode(codec)
    async with gateway_before(tmp_path, whole(b"{}"), "lora-1") as (engine, gateway):
        answer = await exchange(gateway.port, raw_request(body))
    assert answer.status == 200, answer.body
    sent, seen = json.loads(body), json.loads(engine.seen[0].partition(b"\r\n\r\n")[2])
    seen.pop("stream_options", None)
    expected = sent | {"model": "lora-1"}
    assert {name: repr(value) for name, value in seen.items()} == {n: repr(v) for n, v in expected.items()}


def raw_request(body, path=CHAT):
    head = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
    return request_bytes("POST", path, None, authorised() | head) + body


async def test_two_streams_at_once_do_not_mix(tmp_path):
    pieces = [chunk({"content": str(number)}) for number in range(30)] + [DONE]
    async with gateway_before(tmp_path, stream(cut(pieces, "anyhow"))) as (_, gateway):
        answers = await asyncio.gather(*(gateway.chat(stream=True) for _ in range(8)))
    assert {answer.body for answer in answers} == {b"".join(pieces)}


async def test_adapters_of_one_engine_are_models_of_their_own(tmp_path):
    async with scripted_engine(whole(b'{"model":"sql-lora","choices":[]}')) as engine:
        snapshot = snapshot_for(("base/7b", 100, [engine.port]), ("sql-lora", 100, [engine.port]))
        routes = [
            Route(public_name="chat", targets=[RouteTarget(version_id="v1", weight=1)]),
            Route(public_name="chat:sql", targets=[RouteTarget(version_id="v2", weight=1)]),
        ]
        async with running_gateway(tmp_path, msgspec.structs.replace(snapshot, routes=routes)) as gateway:
            answer = await gateway.call("POST", CHAT, chat_body(model="chat:sql"))
            await gateway.call("POST", CHAT, chat_body(model="chat"))
            records = gateway.records()
    asked = [json.loads(seen.partition(b"\r\n\r\n")[2])["model"] for seen in engine.seen]
    assert asked == ["sql-lora", "base/7b"]
    assert answer.body == b'{"model":"chat:sql","choices":[]}'
    assert [(record.public_model, record.version_id) for record in records] == [("chat:sql", "v2"), ("chat", "v1")]
