"""Real vLLM goes on from a text that another engine began; its client reads what one engine would have said."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from tests.engine.test_gateway_vllm import engine_port
from tests.support.gateways import chat_body, running_gateway, snapshot_for

__all__ = ["engine_port"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

EVENTS_BEFORE_THE_CUT = 9


@asynccontextmanager
async def cutting_proxy(engine_port):
    """Passes everything on, and breaks a stream off after some events."""

    async def serve(reader, writer):
        upstream, out = await asyncio.open_connection("127.0.0.1", engine_port)
        asked = asyncio.create_task(pump(reader, out))
        passed = b""
        while passed.count(b"data: {") < EVENTS_BEFORE_THE_CUT:
            piece = await upstream.read(65536)
            if not piece:
                break
            passed += piece
            writer.write(piece)
        asked.cancel()
        for transport in (out.transport, writer.transport):
            transport.abort()
        await asyncio.gather(asked, out.wait_closed(), writer.wait_closed(), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def pump(reader, out):
    while piece := await reader.read(65536):
        out.write(piece)


def text_of(answer):
    choices = [event["choices"][0] for event in answer.events() if event != "[DONE]" and event["choices"]]
    return "".join(choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", chat_body("Tell me about rivers in three sentences.")),
        ("/v1/completions", {"model": "demo-chat", "prompt": "The river"}),
    ],
)
async def test_a_greedy_answer_goes_on_word_for_word(engine_port, tmp_path, path, body):
    body = body | {
        "temperature": 0,
        "max_tokens": 40,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with cutting_proxy(engine_port) as cut_port:
        snapshot = snapshot_for(("demo-chat", 100, [engine_port, cut_port]))
        async with running_gateway(tmp_path, snapshot) as gateway:
            answers = await asyncio.gather(*[gateway.call("POST", path, body) for _ in range(2)])
            records = await gateway.wait_for_records(2)
    assert sorted(record.attempts for record in records) == [1, 2]
    assert text_of(answers[0]) == text_of(answers[1])
    [output_tokens] = {record.output_tokens for record in records}
    told = {event["usage"]["completion_tokens"] for answer in answers for event in answer.events()[-2:-1]}
    assert told == {output_tokens}
    assert output_tokens > EVENTS_BEFORE_THE_CUT
    assert {len({(event["id"], event["created"]) for event in answer.events()[:-1]}) for answer in answers} == {1}
