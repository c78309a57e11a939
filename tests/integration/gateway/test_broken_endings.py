"""An engine that breaks off when all that it had to say is said: its client has lost nothing, and is told nothing."""

import asyncio
import json
import re
import socket
import struct
from contextlib import asynccontextmanager

import pytest

from tests.support.gateways import chat_body, running_gateway, snapshot_for, with_shape
from tests.support.scripted_engine import scripted_engine, stream

pytestmark = pytest.mark.integration

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
ABOUT = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "demo-chat"}
DONE = b"data: [DONE]\n\n"


def event(separators=(",", ":"), **fields):
    return b"data: " + json.dumps(ABOUT | fields, separators=separators).encode() + b"\n\n"


def choice(text, finish=None):
    return [{"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": finish}]


def counted(tokens):
    return {"prompt_tokens": 10, "total_tokens": 10 + tokens, "completion_tokens": tokens}


def answer(separators):
    texts = [event(separators, choices=choice("a")), event(separators, choices=choice("b", "stop"))]
    return [*texts, event(separators, choices=[], usage=counted(2))]


@asynccontextmanager
async def engine_that_resets_after(events):
    async def serve(reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.search(rb"content-length: (\d+)", head.lower())[1]))
            writer.write(HEAD + b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in events))
            await writer.drain()
            await asyncio.sleep(0.1)
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.transport.abort()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


ROLE = event(choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])


@pytest.mark.parametrize(("before", "has_run"), [([], False), ([b": alive\n\n"], False), ([ROLE], True)])
@pytest.mark.parametrize("failure", [b'data: {"error":{"code":503}}\n\n', b'data:{"error": {"code": 400}}\n\n'])
async def test_an_engine_that_refuses_in_a_stream_is_paid_as_one_that_refuses_by_its_status(
    tmp_path, failure, before, has_run
):
    """It says that an assistant speaks when it has run the prompt, and not before."""
    async with (
        scripted_engine(stream([*before, failure, DONE])) as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as gateway,
    ):
        through = await gateway.chat(stream=True)
        [record] = gateway.records()
    assert through.body == b"".join([*before, failure, DONE])
    assert (record.outcome, record.usage_source) == ("failed", "estimated" if has_run else "none")
    assert (record.input_tokens > 0, record.cost_pico_usd > 0) == (has_run, has_run)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["tight", "spaced"])
@pytest.mark.parametrize("shows_usage", [True, False])
async def test_a_stream_that_breaks_off_after_its_done_is_whole(tmp_path, shows_usage, separators):
    events = [*answer(separators), DONE]
    async with engine_that_resets_after(events) as port, gateway_before(tmp_path, port) as gateway:
        got = await stream_of(gateway, shows_usage)
        [record] = await gateway.wait_for_records(1)
    assert got.body == b"".join(events if shows_usage else [*events[:2], DONE])
    assert (record.outcome, record.output_tokens, record.usage_source) == ("completed", 2, "engine")


@pytest.mark.parametrize("shows_usage", [True, False])
async def test_one_that_breaks_off_before_its_done_gets_that_and_nothing_twice(tmp_path, shows_usage):
    events = answer((",", ":"))
    async with engine_that_resets_after(events) as port, gateway_before(tmp_path, port) as gateway:
        got = await stream_of(gateway, shows_usage)
        [record] = await gateway.wait_for_records(1)
    assert got.body == b"".join([*(events if shows_usage else events[:2]), DONE])
    assert (record.outcome, record.output_tokens, record.usage_source) == ("completed", 2, "engine")


def gateway_before(tmp_path, port):
    return running_gateway(tmp_path, with_shape(snapshot_for(("demo-chat", 100, [port])), 1.0))


async def stream_of(gateway, shows_usage):
    options = {"stream_options": {"include_usage": True}} if shows_usage else {}
    return await gateway.call("POST", "/v1/chat/completions", chat_body(stream=True, max_tokens=9, **options))
