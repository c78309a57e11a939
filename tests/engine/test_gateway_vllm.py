"""Through the gateway a client of real vLLM sees what vLLM alone would send, and its tokens are counted."""

import asyncio

import anthropic
import openai
import pytest

from tests.support.byte_equality import CASES, VLLM_CASES, ask_both, assert_equal, body_of
from tests.support.gateways import (
    KEYS,
    authorised,
    chat_body,
    message_body,
    response_body,
    running_gateway,
    snapshot_for,
)
from tests.support.raw_http import call, request_bytes

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


@pytest.fixture
async def gateway(vllm_port, tmp_path):
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [vllm_port]))) as running:
        yield running


async def test_every_answer_equals_the_bare_engines(gateway, vllm_port):
    for case in (*CASES, *VLLM_CASES):
        assert_equal(*await ask_both(vllm_port, gateway.port, *body_of(case)))
    answered = [record for record in gateway.records() if record.status == 200]
    counting = {"/tokenize", "/detokenize", "/v1/messages/count_tokens"}
    assert {record.usage_source for record in answered if record.path not in counting} == {"engine"}
    assert {record.usage_source for record in answered if record.path in counting} == {"none"}
    assert {record.output_tokens for record in answered if record.path in ("/v1/responses", "/v1/messages")} == {8}
    assert [record.output_tokens for record in answered if record.path == "/v1/completions"] == [8, 8, 8, 8]


async def test_a_chat_a_message_and_a_response_of_one_prompt_have_the_same_input(gateway):
    await gateway.call("POST", "/v1/chat/completions", chat_body("Name three colours."))
    for is_stream in (False, True):
        await gateway.call("POST", "/v1/messages", message_body("Name three colours.", stream=is_stream))
        await gateway.call("POST", "/v1/responses", response_body("Name three colours.", stream=is_stream))
    assert {record.input_tokens for record in gateway.records()} == {34}


@pytest.mark.parametrize(("path", "make_body"), [("/v1/messages", message_body), ("/v1/responses", response_body)])
async def test_a_stream_of_named_events_cut_short_is_charged_an_estimate_near_the_truth(gateway, path, make_body):
    limits = {"max_tokens": 1000} if path == "/v1/messages" else {"max_output_tokens": 1000}
    body = make_body("Tell me a long story about the sea.", stream=True, temperature=0, **limits)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(request_bytes("POST", path, body, authorised()))
    for _ in range(12):
        await asyncio.wait_for(reader.readuntil(b"\n\n\r\n"), 60)
    writer.transport.abort()
    [record] = await gateway.wait_for_records(1)
    assert (record.outcome, record.usage_source) == ("client_left", "estimated")
    assert 6 <= record.output_tokens <= 20
    assert record.input_tokens > 0
    assert record.ttft_ms is not None


async def test_the_official_sdks_have_their_messages_and_responses(gateway):
    url = f"http://127.0.0.1:{gateway.port}"
    asked = {"model": "demo-chat", "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]}
    async with (
        anthropic.AsyncAnthropic(base_url=url, auth_token=KEYS["gold"], max_retries=0) as claude,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEYS["gold"], max_retries=0) as gpt,
    ):
        message = await claude.messages.create(**asked)
        async with claude.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()
        response = await gpt.responses.create(model="demo-chat", input="Hi", max_output_tokens=8)
        async with gpt.responses.stream(model="demo-chat", input="Hi", max_output_tokens=8) as events:
            final = await events.get_final_response()
    said = [message.usage, streamed.usage, response.usage, final.usage]
    recorded = [(record.input_tokens, record.output_tokens) for record in gateway.records()]
    assert recorded == [(usage.input_tokens, usage.output_tokens) for usage in said]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_several_choices_in_one_stream_are_all_counted(gateway, path):
    body = chat_body(n=2, stream=True, max_tokens=4, ignore_eos=True) | {"prompt": "The sky is"}
    answer = await gateway.call("POST", path, body)
    [record] = gateway.records()
    assert answer.body.count(b'"system_fingerprint"') == 2
    assert record.output_tokens == 8


async def test_a_client_that_leaves_frees_the_engine_and_is_charged_what_it_generated(gateway, vllm_port):
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    body = chat_body(stream=True, max_tokens=1000, ignore_eos=True)
    writer.write(request_bytes("POST", "/v1/chat/completions", body, authorised()))
    for _ in range(8):
        await asyncio.wait_for(reader.readuntil(b"\n\n\r\n"), 60)
    writer.transport.abort()
    [record] = await gateway.wait_for_records(1)
    assert (record.outcome, record.usage_source) == ("client_left", "engine")
    assert record.input_tokens > 0
    assert 5 <= record.output_tokens <= 20
    for _ in range(100):
        metrics = (await call(vllm_port, "GET", "/metrics")).body.decode()
        running = [line for line in metrics.splitlines() if line.startswith("vllm:num_requests_running{")]
        if all(line.endswith(" 0.0") for line in running):
            break
        await asyncio.sleep(0.1)
    assert running
    assert all(line.endswith(" 0.0") for line in running)


async def test_several_conversations_at_once_are_answered_as_by_the_bare_engine_and_counted_together(
    gateway, vllm_port
):
    talks = [[{"role": "user", "content": text}] for text in ("Name three colours.", "Name a bird.")]
    fields = {"model": "demo-chat", "messages": talks, "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    alone, through = await ask_both(vllm_port, gateway.port, "/v1/chat/completions/batch", fields)
    assert_equal(alone, through)
    [record] = gateway.records()
    usage = through.json()["usage"]
    assert (through.status, len(through.json()["choices"])) == (200, 2)
    assert (record.input_tokens, record.output_tokens) == (usage["prompt_tokens"], usage["completion_tokens"])


async def test_a_ping_is_answered_as_by_the_bare_engine(gateway, vllm_port):
    for method in ("GET", "POST"):
        alone, through = [await call(port, method, "/ping") for port in (vllm_port, gateway.port)]
        assert (alone.status, alone.body) == (through.status, through.body) == (200, b"")
