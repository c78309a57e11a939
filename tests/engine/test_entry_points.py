"""What vLLM's own tests ask of its entry points, asked of real vLLM alone and through the gateway: equal answers.

Bytes are compared, after ids and times are taken out. Where several choices or prompts share a stream, the order in
which they take turns is chance; the events of each are compared then. How many tokens come in one event is chance too
on a busy machine. And vLLM on a CPU does not compute the same logprobs to the last digit when two choices share a step
and when they do not: asked twelve times for the same two sampled choices it gave one answer nine times and another
three times. So answers that differ are asked for again, and compared with all that the engine alone has said.
"""

import re

import openai
import pytest

from tests.engine.entry_points import chats, completions, others
from tests.support.byte_equality import ask_both, assert_equal, without_varying
from tests.support.gateways import KEYS, running_gateway, snapshot_for
from tests.support.raw_http import call, exchange

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

TRIES = 6
CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
_CHOICE = re.compile(rb'"choices":\[\{"index":(\d+)')
_CALL = re.compile(rb'"(call_id|tool_call_id)":"[^"]*"')


@pytest.fixture
async def gateway(vllm_port, tmp_path):
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [vllm_port]))) as running:
        yield running


def in_turns(body):
    """The events of each choice together."""
    events = _CALL.sub(b"", without_varying(body)).split(b"\n\n")
    turns = [int(found[1]) if (found := _CHOICE.search(event)) else 1_000_000 for event in events]
    return [event for _, event in sorted(zip(turns, events, strict=True), key=lambda pair: pair[0])]


def told(answer):
    return answer.status_line, in_turns(answer.body)


async def assert_the_same(vllm_port, gateway, path, body, *, status=None):
    """An engine alone may answer one request in several ways: one of those that it was seen to give."""
    alone_told, through_told = [], []
    for _ in range(TRIES):
        alone, through = await ask_both(vllm_port, gateway.port, path, body)
        alone_told.append(told(alone))
        through_told.append(told(through))
        if any(one in alone_told for one in through_told):
            break
    else:
        assert told(alone) == told(through)
    if alone.status != 200:
        assert_equal(alone, through)
    if status is not None:
        assert alone.status == status


def chat_streams():
    return chats.SHAPES | chats.STREAMS


def completion_streams():
    return completions.SHAPES | completions.STREAMS


def streamed_and_some_whole(cases):
    return [(name, True) for name in cases] + [(name, False) for name in others.ALSO_WHOLE]


@pytest.mark.parametrize("name", chat_streams())
async def test_chats_in_a_stream(vllm_port, gateway, name):
    await assert_the_same(vllm_port, gateway, CHAT, chats.body(chat_streams()[name], stream=True), status=200)


@pytest.mark.parametrize("name", [*chats.ALSO_WHOLE, *chats.WHOLE])
async def test_whole_chats(vllm_port, gateway, name):
    fields = (chats.SHAPES | chats.WHOLE)[name]
    await assert_the_same(vllm_port, gateway, CHAT, chats.body(fields), status=200)


@pytest.mark.parametrize("name", chats.REFUSED)
async def test_chats_that_are_refused(vllm_port, gateway, name):
    await assert_the_same(vllm_port, gateway, CHAT, chats.body(chats.REFUSED[name]), status=400)


@pytest.mark.parametrize("name", completion_streams())
async def test_completions_in_a_stream(vllm_port, gateway, name):
    body = completions.body(completion_streams()[name], stream=True)
    await assert_the_same(vllm_port, gateway, COMPLETIONS, body, status=200)


@pytest.mark.parametrize("name", [*completions.ALSO_WHOLE, *completions.WHOLE])
async def test_whole_completions(vllm_port, gateway, name):
    fields = (completions.SHAPES | completions.WHOLE)[name]
    await assert_the_same(vllm_port, gateway, COMPLETIONS, completions.body(fields), status=200)


@pytest.mark.parametrize("name", completions.REFUSED)
async def test_completions_that_are_refused(vllm_port, gateway, name):
    await assert_the_same(vllm_port, gateway, COMPLETIONS, completions.body(completions.REFUSED[name]), status=400)


@pytest.mark.parametrize(("name", "stream"), streamed_and_some_whole(others.RESPONSES))
async def test_responses(vllm_port, gateway, name, stream):
    body = others.response_body(others.RESPONSES[name], stream=stream)
    await assert_the_same(vllm_port, gateway, RESPONSES, body, status=200)


@pytest.mark.parametrize(("name", "stream"), streamed_and_some_whole(others.MESSAGES))
async def test_messages(vllm_port, gateway, name, stream):
    body = others.message_body(others.MESSAGES[name], stream=stream)
    await assert_the_same(vllm_port, gateway, "/v1/messages", body, status=200)


@pytest.mark.parametrize("stream", [False, True])
async def test_responses_and_messages_that_are_refused(vllm_port, gateway, stream):
    for fields in others.REFUSED_RESPONSES.values():
        await assert_the_same(vllm_port, gateway, RESPONSES, others.response_body(fields, stream=stream))
    for fields in others.REFUSED_MESSAGES.values():
        await assert_the_same(vllm_port, gateway, "/v1/messages", others.message_body(fields, stream=stream))


@pytest.mark.parametrize("path", others.COUNTING)
async def test_counting(vllm_port, gateway, path):
    for fields in others.COUNTING[path].values():
        await assert_the_same(vllm_port, gateway, path, {"model": "demo-chat"} | fields)


async def test_an_adapter_answers_by_its_own_name(vllm_port, tmp_path):
    snapshot = snapshot_for(("demo-lora", 100, [vllm_port]))
    async with running_gateway(tmp_path, snapshot) as gateway:
        for stream in (False, True):
            fields = {"max_tokens": 8, "stream": stream}
            alone = await call(vllm_port, "POST", CHAT, chats.body(fields) | {"model": "demo-lora"})
            through = await gateway.call("POST", CHAT, chats.body(fields))
            base = await call(vllm_port, "POST", CHAT, chats.body(fields))
            named = alone.body.replace(b'"model":"demo-lora"', b'"model":"demo-chat"')
            assert without_varying(through.body) == without_varying(named)
            assert without_varying(through.body) != without_varying(base.body)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (CHAT, {"messages": [{"role": "user", "content": "x"}]}),
        (COMPLETIONS, {"prompt": "x"}),
        (RESPONSES, {"input": "x"}),
    ],
)
async def test_what_the_sdk_makes_of_an_unknown_model_and_of_no_json_is_the_same(vllm_port, gateway, path, fields):
    for port, key in ((vllm_port, "none"), (gateway.port, KEYS["gold"])):
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}", api_key=key, max_retries=0) as client:
            with pytest.raises(openai.NotFoundError):
                await client.post(path, body={"model": "nobody"} | fields, cast_to=object)
        for content in (b"{", b"[]", b"nonsense", b""):
            head = f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
            answer = await exchange(port, head.encode() + content)
            assert answer.status == 400
            assert answer.json()["error"]["message"]


async def test_models_are_listed_and_shown_by_the_sdk_alike(vllm_port, gateway):
    shown = []
    for port, key in ((vllm_port, "none"), (gateway.port, KEYS["gold"])):
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0) as client:
            listed = [model.id async for model in client.models.list()]
            shown.append(listed[0])
    assert shown == ["demo-chat", "demo-chat"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_other_methods_are_refused_with_the_same_status(vllm_port, gateway, method):
    for path in (CHAT, COMPLETIONS, "/v1/messages", "/tokenize"):
        alone = await call(vllm_port, method, path)
        through = await gateway.call(method, path)
        assert (alone.status, through.status) == (405, 405)
