"""The gateway before real (fake) engines, over real sockets."""

import asyncio
import json
import re

import pytest

from tests.support.fake_engines import fake_engine
from tests.support.gateways import authorised, chat_body, running_gateway, snapshot_for
from tests.support.raw_http import call, exchange, request_bytes

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"


@pytest.fixture
async def engine():
    async with fake_engine(
        "--served-model-name", "demo-chat", "--max-model-len", "2048", "--time-scale", "1"
    ) as server:
        yield server


@pytest.fixture
async def slow_engine():
    """So slow that each token has an event of its own."""
    async with fake_engine(
        "--served-model-name", "demo-chat", "--max-model-len", "2048", "--time-scale", "3"
    ) as server:
        yield server


@pytest.fixture
async def gateway(engine, tmp_path):
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as running:
        yield running


def stable(body: bytes) -> bytes:
    """Without what differs from one request to the next."""
    for key in (b"created", b"metrics", b"cached_tokens", b"created_cache_tokens"):
        body = re.sub(rb'"%b":("[^"]*"|[\d.]+|null|\{[^}]*\})' % key, b'"%b":_' % key, body)
    return body


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"stream": True},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
        {"n": 2},
        {"n": 2, "stream": True},
        {"logprobs": True, "top_logprobs": 2},
        {"max_tokens": 5000},
        {"max_tokens": -1},
        {"temperature": "hot"},
        {"priority": "high"},
        {"priority": 1.5},
        {"messages": None},
        {"stream": True, "messages": [{"role": "user", "content": "word " * 3000}]},
    ],
    ids=lambda fields: "-".join(fields) or "plain",
)
async def test_a_client_sees_what_the_engine_alone_would_send(slow_engine, tmp_path, fields):
    body = chat_body(seed=7, **fields) if "messages" not in fields else chat_body(seed=7) | fields
    headers = {"X-Request-Id": "same-id"}
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [slow_engine.port]))) as gateway:
        for _ in range(10):  # a machine that lags puts two tokens into one event, in either stream
            alone = await call(slow_engine.port, "POST", CHAT, body, headers)
            through = await call(gateway.port, "POST", CHAT, body, headers | authorised())
            if stable(through.body) == stable(alone.body):
                break
    assert through.status_line == alone.status_line
    assert stable(through.body) == stable(alone.body)
    varying_headers = {"date": "", "content-length": "", "server-timing": ""}  # a body's metrics differ in digits
    assert dict(through.headers) | varying_headers == dict(alone.headers) | varying_headers
    assert through.header("content-length") in (None, str(len(through.body)))


async def test_a_wrong_content_type_is_the_engines_to_refuse(gateway, engine):
    headers = {"Content-Type": "text/plain"}
    alone = await call(engine.port, "POST", CHAT, chat_body(), headers)
    through = await call(gateway.port, "POST", CHAT, chat_body(), headers | authorised())
    assert (through.status, through.body) == (alone.status, alone.body)


async def test_models_lists_public_names(gateway):
    answer = await gateway.call("GET", "/v1/models")
    assert [card["id"] for card in answer.json()["data"]] == ["demo-chat"]
    assert (await gateway.call("GET", "/v1/models/demo-chat")).json()["object"] == "model"
    assert (await gateway.call("GET", "/v1/models/demo%2Dchat")).json()["id"] == "demo-chat"
    assert (await gateway.call("GET", "/v1/models/nope")).status == 404


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "missing_api_key"),
        ({"Authorization": "Bearer "}, "missing_api_key"),
        ({"Authorization": "Basic dXNlcg=="}, "missing_api_key"),
        ({"Authorization": "Bearer wrong"}, "invalid_api_key"),
    ],
)
async def test_without_a_good_key_nothing_is_served_or_recorded(gateway, headers, code):
    answer = await call(gateway.port, "POST", CHAT, chat_body(), headers | {"X-Request-Id": "mine"})
    assert (answer.status, answer.json()["error"]["code"]) == (401, code)
    assert answer.header("x-request-id") == "mine"
    assert answer.header("www-authenticate") == "Bearer"
    assert gateway.records() == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", CHAT, {"model": "nope"}, 404, "model_not_found"),
        ("POST", CHAT, {"messages": []}, 400, "missing_model"),
        ("POST", CHAT, [1], 400, "invalid_json"),
        ("GET", CHAT, None, 405, "method_not_allowed"),
        ("DELETE", "/v1/models", None, 405, "method_not_allowed"),
        ("GET", "/v1/nothing", None, 404, "unknown_url"),
        ("GET", "/", None, 404, "unknown_url"),
    ],
)
async def test_bad_requests_get_an_openai_error_that_says_what_is_wrong(gateway, method, path, body, status, code):  # noqa: PLR0917 - a table
    answer = await gateway.call(method, path, body)
    error = answer.json()["error"]
    assert (answer.status, error["code"]) == (status, code)
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]


async def test_text_that_is_no_unicode_is_served_and_recorded(gateway):
    assert (await gateway.chat(user="\ud800")).status == 200  # as JSON it is an escape, which is allowed
    [record] = await gateway.wait_for_records(1)
    assert (record.end_user, record.outcome) == ("?", "completed")


async def test_a_fault_of_the_gateway_is_answered_500_and_recorded(gateway, monkeypatch):
    monkeypatch.setattr("workers.gateway.front.intake.peek", lambda _: 1 / 0)
    assert (await gateway.chat()).status == 500
    [record] = await gateway.wait_for_records(1)
    assert (record.outcome, record.error_code) == ("failed", "internal_error")


async def test_a_405_names_the_method_to_use(gateway):
    assert (await gateway.call("GET", CHAT)).header("allow") == "POST"


async def test_head_gets_headers_without_a_body(gateway):
    answer = await gateway.call("HEAD", "/v1/models")
    assert answer.status == 200
    assert int(answer.header("content-length")) > 0
    assert answer.body == b""


async def test_a_given_request_id_comes_back_and_another_is_made_when_it_is_unfit(gateway):
    given = await gateway.call("POST", CHAT, chat_body(), headers={"X-Request-Id": "my-id"})
    unfit = await gateway.call("POST", CHAT, chat_body(), headers={"X-Request-Id": "x" * 500})
    assert given.header("x-request-id") == "my-id"
    assert len(unfit.header("x-request-id")) == 32
    assert [record.request_id for record in gateway.records()] == ["my-id", unfit.header("x-request-id")]


async def test_pipelined_requests_are_answered_in_order(gateway):
    first = request_bytes("POST", CHAT, chat_body(), authorised() | {"Connection": "keep-alive", "X-Request-Id": "a"})
    second = request_bytes("GET", "/v1/models", None, authorised() | {"Connection": "keep-alive"})
    third = request_bytes("POST", CHAT, chat_body(), authorised() | {"X-Request-Id": "c"})
    answer = await exchange(gateway.port, first + second + third)
    whole = answer.body
    assert answer.header("x-request-id") == "a"
    assert whole.count(b"HTTP/1.1 200 OK") == 2
    assert whole.index(b'"object":"list"') < whole.index(b"chatcmpl-c")


async def test_a_request_in_single_bytes_is_understood(gateway):
    raw = request_bytes("POST", CHAT, chat_body(), authorised())
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    for position in range(len(raw)):
        writer.write(raw[position : position + 1])
        await asyncio.sleep(0)
    answer = await reader.read(-1)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_chunked_request_body_is_understood(gateway):
    body = json.dumps(chat_body()).encode()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(body[i : i + 10]), body[i : i + 10]) for i in range(0, len(body), 10))
    head = b"POST %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n" % CHAT.encode()
    key = f"Authorization: {authorised()['Authorization']}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    answer = await exchange(gateway.port, head + key + chunks + b"0\r\n\r\n")
    assert answer.status == 200


async def test_expect_100_continue_is_granted(gateway):
    raw = request_bytes("POST", CHAT, chat_body(), authorised() | {"Expect": "100-continue"})
    head, _, body = raw.partition(b"\r\n\r\n")
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(head + b"\r\n\r\n")
    assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5) == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    assert (await reader.read(-1)).startswith(b"HTTP/1.1 200 OK\r\n")
    writer.close()


async def test_an_http_10_client_gets_a_stream_that_ends_with_the_connection(gateway):
    raw = request_bytes("POST", CHAT, chat_body(stream=True), authorised()).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    answer = await exchange(gateway.port, raw)
    assert answer.header("transfer-encoding") is None
    assert answer.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n",
    ],
    ids=range(8),
)
async def test_broken_framing_is_answered_400_and_the_connection_closed(gateway, raw):
    answer = await exchange(gateway.port, raw, timeout_s=5)
    assert answer.status == 400
    assert answer.header("connection") == "close"


async def test_headers_that_are_too_large_are_answered_431(gateway):
    raw = request_bytes("GET", "/v1/models", None, authorised() | {"X-Big": "x" * 70_000})
    assert (await exchange(gateway.port, raw)).status == 431


async def test_a_body_that_is_too_large_is_answered_413_before_it_is_sent(gateway):
    raw = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"
    assert (await exchange(gateway.port, raw)).status == 413


async def test_only_known_origins_get_cors_headers(engine, tmp_path):
    snapshot = snapshot_for(("demo-chat", 100, [engine.port]), cors_origins=["http://console"])
    async with running_gateway(tmp_path, snapshot) as gateway:
        preflight = {"Origin": "http://console", "Access-Control-Request-Method": "POST"}
        allowed = await call(gateway.port, "OPTIONS", CHAT, None, preflight)
        refused = await call(gateway.port, "OPTIONS", CHAT, None, preflight | {"Origin": "http://evil"})
        answer = await gateway.call("POST", CHAT, chat_body(), headers={"Origin": "http://console"})
    assert allowed.header("access-control-allow-origin") == "http://console"
    assert refused.header("access-control-allow-origin") is None
    assert answer.header("access-control-allow-origin") == "http://console"


async def test_a_model_with_another_name_on_the_engine_keeps_its_public_name(tmp_path):
    async with (
        fake_engine("--served-model-name", "inner") as engine,
        running_gateway(tmp_path, snapshot_for(("inner", 100, [engine.port]))) as gateway,
    ):
        whole = await gateway.chat()
        stream = await gateway.chat(stream=True)
    assert whole.json()["model"] == "demo-chat"
    assert {event["model"] for event in stream.events() if event != "[DONE]"} == {"demo-chat"}
    assert b"inner" not in whole.body + stream.body


async def test_a_new_snapshot_counts_without_a_restart(gateway, engine):
    assert (await gateway.chat()).status == 200
    gateway.publish(snapshot_for(("demo-chat", 100, [engine.port]), generation=2, keys=[]))
    await gateway.wait_for_generation(2)
    assert (await gateway.chat()).status == 401


async def test_a_broken_snapshot_leaves_the_last_one_in_force(gateway):
    (gateway.directory / "snapshot.json").write_bytes(b"{half")
    for _ in range(100):
        await asyncio.sleep(0.02)
        if gateway.service._snapshot_file.error:
            break
    assert "not a snapshot" in gateway.service._snapshot_file.error
    assert (await gateway.chat()).status == 200


async def test_a_canary_weight_is_met_by_a_thousand_requests(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "0.001") as engine:
        versions = [("demo-chat", 90, [engine.port]), ("demo-chat", 10, [engine.port])]
        async with running_gateway(tmp_path, snapshot_for(*versions)) as gateway:
            for _ in range(20):
                await asyncio.gather(*[gateway.chat(max_tokens=1) for _ in range(50)])
            records = gateway.records()
    assert len(records) == 1000
    assert sum(record.version_id == "v2" for record in records) == pytest.approx(100, abs=20)


async def test_a_canary_without_engines_leaves_its_requests_to_the_other_version(engine, tmp_path):
    versions = [("demo-chat", 50, [engine.port]), ("demo-chat", 50, [])]
    async with running_gateway(tmp_path, snapshot_for(*versions)) as gateway:
        answers = [await gateway.chat(max_tokens=1) for _ in range(6)]
        records = gateway.records()
    assert {answer.status for answer in answers} == {200}
    assert {record.version_id for record in records} == {"v1"}


@pytest.mark.parametrize("path", [f"{CHAT}/", f"{CHAT}//", f"{CHAT}/?api-version=1", "/v1/responses/"])
async def test_a_slash_too_many_leads_where_engines_lead_it(gateway, path):
    answer = await gateway.call("POST", path, chat_body())
    assert (answer.status, answer.body) == (307, b"")
    plain, mark, query = path.partition("?")
    assert answer.header("location") == plain.rstrip("/") + mark + query
    assert gateway.records() == []
