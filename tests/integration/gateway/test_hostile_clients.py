"""Clients that mean harm, or are broken: on raw sockets, against a gateway that goes on serving everybody else."""

import asyncio
import re
import socket
import struct

import pytest

from tests.support.fake_engines import fake_engine
from tests.support.gateways import authorised, chat_body, running_gateway, snapshot_for
from tests.support.raw_http import call, parse_response, request_bytes
from tests.unit.workers.gateway.http.test_requests import SMUGGLED

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
ENGINE = ("--served-model-name", "demo-chat")


@pytest.fixture
async def engine():
    async with fake_engine(*ENGINE) as running:
        yield running


@pytest.fixture
async def gateway(engine, tmp_path):
    snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
    async with running_gateway(tmp_path, snapshot, request_s=1.0, idle_s=2.0) as running:
        yield running
        assert (await running.chat(max_tokens=1)).status == 200


async def send(port, *pieces, pause_s=0.0):
    """All that comes back until the gateway closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)
        return await asyncio.wait_for(reader.read(-1), 20)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_nothing_behind_a_smuggled_request_reaches_the_engine(gateway, engine):
    hidden = request_bytes("POST", CHAT, chat_body("smuggled"), authorised())
    for raw in SMUGGLED.values():
        answer = await send(gateway.port, raw + hidden)
        assert parse_response(answer).status == 400, raw
        assert answer.count(b"HTTP/1.1 ") == 1, raw
    entries = (await call(engine.port, "GET", "/fake/requests")).json()["requests"]
    assert entries == []


async def test_bytes_one_by_one_are_the_same_request(gateway):
    raw = request_bytes("POST", CHAT, chat_body(max_tokens=1), authorised())
    answer = await send(gateway.port, *[bytes([byte]) for byte in raw])
    assert parse_response(answer).status == 200


async def test_a_client_that_never_ends_its_head_is_told_so_and_let_go(gateway):
    answer = await send(gateway.port, b"GET /v1/models HTTP/1.1\r\nHost: a\r\n", b"X: y\r\n", pause_s=0.1)
    assert parse_response(answer).status == 408


async def test_a_client_that_never_ends_its_body_is_told_so_and_let_go(gateway):
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
    answer = await send(gateway.port, head, b"{", b'"', pause_s=0.1)
    assert parse_response(answer).status == 408


async def test_a_client_that_says_nothing_is_let_go(gateway):
    assert await send(gateway.port) == b""


async def test_what_was_asked_before_nonsense_is_answered_first(gateway):
    kept = authorised() | {"Connection": "keep-alive"}
    long, short = (request_bytes("POST", CHAT, chat_body(max_tokens=n), kept) for n in (20, 1))
    for pieces in ([long + short + b"nonsense"], [long, short, b"nonsense"]):
        answer = await send(gateway.port, *pieces)
        assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"200", b"400"]


async def test_leave_to_send_a_body_comes_after_the_answers_before_it(gateway):
    kept = authorised() | {"Connection": "keep-alive"}
    first = request_bytes("POST", CHAT, chat_body(max_tokens=20), kept)
    head, _, body = request_bytes(
        "POST", CHAT, chat_body(max_tokens=1), authorised() | {"Expect": "100-continue"}
    ).partition(b"\r\n\r\n")
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(first + head + b"\r\n\r\n")
    seen = await asyncio.wait_for(reader.readuntil(b"100 Continue\r\n\r\n"), 20)
    writer.write(body)
    seen += await asyncio.wait_for(reader.read(-1), 20)
    writer.close()
    assert re.findall(rb"HTTP/1.1 (\d+)", seen) == [b"200", b"100", b"200"]


async def test_a_reset_in_the_middle_of_a_body_leaves_nothing_behind(gateway):
    for cut in (10, 60, 200):
        raw = request_bytes("POST", CHAT, chat_body("x" * 400), authorised())
        with socket.create_connection(("127.0.0.1", gateway.port)) as client:
            client.sendall(raw[:cut])
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await asyncio.sleep(0.2)
    assert len(gateway.service._connections) == 0
    assert gateway.records() == []


async def test_a_request_in_absolute_form_is_the_same_request(gateway):
    raw = request_bytes("POST", f"http://127.0.0.1:{gateway.port}{CHAT}", chat_body(max_tokens=1), authorised())
    assert parse_response(await send(gateway.port, raw)).status == 200


async def test_an_offer_to_speak_http_2_is_passed_over(gateway):
    headers = authorised() | {"Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    raw = request_bytes("POST", CHAT, chat_body(max_tokens=1), headers)
    assert parse_response(await send(gateway.port, raw)).status == 200


async def test_connections_of_one_key_are_bounded_and_those_of_others_are_not(engine, tmp_path):
    snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
    async with running_gateway(tmp_path, snapshot, max_connections_per_key=2) as gateway:
        kept = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(2)]
        for reader, writer in kept:
            writer.write(request_bytes("POST", CHAT, chat_body(), authorised() | {"Connection": "keep-alive"}))
            await reader.readuntil(b"\r\n\r\n")
        refused = await gateway.chat()
        other = await gateway.chat(tenant="batch")
        for _, writer in kept:
            writer.close()
        await asyncio.sleep(0.1)
        again = await gateway.chat()
    assert (refused.status, refused.json()["error"]["code"]) == (429, "too_many_connections")
    assert (other.status, again.status) == (200, 200)


async def test_connections_of_all_together_are_bounded(engine, tmp_path):
    snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
    async with running_gateway(tmp_path, snapshot, max_connections=2) as gateway:
        idle = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(2)]
        await asyncio.sleep(0.1)
        refused = parse_response(await send(gateway.port))
        for _, writer in idle:
            writer.close()
        await asyncio.sleep(0.1)
        assert (await gateway.chat()).status == 200
    error = refused.json()["error"]
    assert (refused.status, error["code"], error["type"]) == (503, "too_many_connections", "server_error")


async def test_an_image_at_an_address_inside_is_never_asked_for(gateway, engine):
    part = {"type": "image_url", "image_url": {"url": f"http://127.0.0.1:{engine.port}/secret"}}
    answer = await gateway.call("POST", CHAT, chat_body() | {"messages": [{"role": "user", "content": [part]}]})
    assert (answer.status, answer.json()["error"]["code"]) == (400, "media_url_refused")
    assert str(engine.port) not in answer.body.decode()
    [record] = gateway.records()
    assert (record.outcome, record.error_code) == ("rejected", "media_url_refused")


async def test_an_error_says_nothing_of_prompts_keys_or_engines(gateway, engine):
    await call(engine.port, "POST", "/fake/faults", {"reset_after_tokens": 1})
    answers = [
        await gateway.chat("my secret prompt", stream=True, logprobs=True, max_tokens=9),
        await gateway.call("POST", CHAT, {"model": "other-tenants-model", "messages": "my secret prompt"}),
        await gateway.call(
            "POST", CHAT, chat_body("my secret prompt"), headers={"Authorization": "Bearer ty-wrong-key"}
        ),
    ]
    await call(engine.port, "POST", "/fake/faults", {"reset_after_tokens": None})
    for answer in answers:
        error = answer.body[answer.body.index(b'"error"') :]
        for word in (b"secret", b"ty-", b"127.0.0.1", str(engine.port).encode(), b"gold"):
            assert word not in error
