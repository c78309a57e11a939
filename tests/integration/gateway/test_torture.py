"""Many clients that behave badly at once, on raw sockets against a gateway process: nothing is lost, nothing grows."""

import asyncio
import re
import socket
import struct
import subprocess

import pytest

from tests.support.fake_engines import fake_engine, free_port, wait_for_port
from tests.support.gateway_processes import gateway_command, spooled
from tests.support.gateways import KEYS, authorised, chat_body, snapshot_for
from tests.support.raw_http import call, parse_response, request_bytes

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
KEPT = authorised() | {"Connection": "keep-alive"}


@pytest.fixture
async def engine():
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "0.2") as running:
        yield running


@pytest.fixture
async def port(engine, tmp_path):
    """Of a gateway that writes all it says to `log`."""
    port = free_port()
    command = gateway_command(
        tmp_path, snapshot_for(("demo-chat", 100, [engine.port])), port, free_port(), "--access-log"
    )
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: ASYNC220 - it only begins
        try:
            wait_for_port(port, process)
            yield port
            assert (await call(port, "POST", CHAT, chat_body(max_tokens=1), authorised())).status == 200
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait, 20)
    text = (tmp_path / "log").read_text()
    assert not [key for key in KEYS.values() if key in text]
    assert "Traceback" not in text


async def wait_for(tmp_path, count):
    for _ in range(400):
        if len(records := spooled(tmp_path)) >= count:
            return records
        await asyncio.sleep(0.05)
    raise AssertionError(f"{len(records)} records of {count}")


async def test_a_client_that_asks_far_ahead_and_reads_late_is_answered_in_order(port, tmp_path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def ask_all():
        for number in range(200):
            writer.write(request_bytes("POST", CHAT, chat_body(max_tokens=1), KEPT | {"X-Request-Id": f"n{number}"}))
            await writer.drain()
        writer.write(request_bytes("GET", "/v1/models", None, authorised()))

    asking = asyncio.create_task(ask_all())
    await asyncio.sleep(0.5)
    answers = await asyncio.wait_for(reader.read(-1), 60)
    await asking
    writer.close()
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200"] * 201
    assert re.findall(rb"x-request-id: n(\d+)", answers) == [str(number).encode() for number in range(200)]
    await wait_for(tmp_path, 200)


async def test_clients_that_reset_in_the_middle_of_a_stream_leave_one_record_each(port, engine, tmp_path):
    async def leave():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = chat_body(stream=True, max_tokens=2000, ignore_eos=True)
        writer.write(request_bytes("POST", CHAT, body, authorised()))
        await reader.read(300)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    await asyncio.gather(*[leave() for _ in range(40)])
    records = await wait_for(tmp_path, 40)
    assert {(record.outcome, record.usage_source) for record in records} == {("client_left", "engine")}
    assert len({record.record_id for record in records}) == 40
    for _ in range(200):
        running = (await call(engine.port, "GET", "/metrics")).body.decode()
        if re.search(r"^vllm:num_requests_running\{[^}]*\} 0", running, re.MULTILINE):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the engine goes on for nobody")


async def test_a_client_that_closes_its_side_has_left(port, tmp_path):
    """As uvicorn, and so vLLM, sees it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes("POST", CHAT, chat_body(stream=True, max_tokens=2000, ignore_eos=True), authorised()))
    await reader.read(300)
    writer.write_eof()
    await asyncio.wait_for(reader.read(-1), 20)
    writer.close()
    [record] = await wait_for(tmp_path, 1)
    assert record.outcome == "client_left"


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/nothing", CHAT])
async def test_the_answer_to_a_head_is_that_to_a_get_without_its_body(port, path):
    answers = []
    for method in ("HEAD", "GET"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_bytes(method, path, None, authorised()))
        answers.append(parse_response(await asyncio.wait_for(reader.read(-1), 20)))
        writer.close()
    head, get = answers
    assert (head.status, head.body) == (get.status, b"")
    assert head.header("content-length") == get.header("content-length") == str(len(get.body))
