"""Messages and Responses whose engine dies: another goes on, and the client reads one answer in the same words."""

import asyncio
import json
import re

import anthropic
import openai
import pytest

from tests.integration.gateway.test_migration import ENGINE, broken_and_unbroken, one_at_a_time, set_fault
from tests.support.fake_engines import fake_engine
from tests.support.gateways import KEYS, message_body, response_body, running_gateway, snapshot_for, with_shape
from tests.support.scripted_engine import scripted_engine, stream

pytestmark = pytest.mark.integration

MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
_OWN = re.compile(
    r'"(id|item_id|created_at|sequence_number|delta|input_tokens|output_tokens|cached_tokens)":("[^"]*"|\d+)'
)
IN_BLOCKS = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
CLAUDES_TOOL = {"name": "f", "input_schema": {"type": "object"}}


def long_message(**fields):
    return message_body("tell me", max_tokens=60, stream=True) | fields


def long_response(**fields):
    return response_body("tell me", max_output_tokens=60, stream=True) | fields


def named_events(answer):
    found = [event.split("\ndata: ") for event in answer.body.decode().split("\n\n") if event]
    return [(name.removeprefix("event: "), json.loads(data)) for name, data in found]


def text_of(answer):
    events = [event for _, event in named_events(answer)]
    deltas = [event["delta"] for event in events if "delta" in event]
    return "".join(delta if isinstance(delta, str) else delta.get("text", "") for delta in deltas)


def shapes(answer):
    """Each kind of event once, without what is each answer's own."""
    kinds = []
    for name, event in named_events(answer):
        kind = (name, re.sub(r'"text":"[^"]*"', "", _OWN.sub("", json.dumps(event, separators=(",", ":")))))
        if not kinds or kinds[-1] != kind:
            kinds.append(kind)
    return kinds


@pytest.mark.parametrize(("path", "body"), [(MESSAGES, long_message()), (RESPONSES, long_response())])
@pytest.mark.parametrize("tokens", [1, 7, 40])
async def test_the_client_sees_one_unbroken_stream(tmp_path, path, body, tokens):
    (broken, record), (unbroken, other) = await broken_and_unbroken(tmp_path, path, body, reset_after_tokens=tokens)
    assert (record.attempts, other.attempts) == (2, 1)
    assert text_of(broken) == text_of(unbroken)
    assert shapes(broken) == shapes(unbroken)
    assert (record.outcome, record.status) == ("completed", 200)
    assert (record.input_tokens, record.output_tokens) == (other.input_tokens, other.output_tokens)
    assert record.cost_pico_usd == other.cost_pico_usd


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            MESSAGES,
            long_message(system="Be brief.", messages=IN_BLOCKS),
        ),
        (MESSAGES, long_message(stop_sequences=["zebra"], metadata={"user_id": "u"})),
        (RESPONSES, long_response(instructions="Be brief.", input=[{"role": "user", "content": "tell me"}])),
        (RESPONSES, long_response(metadata={"a": "b"}, temperature=0)),
    ],
)
async def test_so_it_is_with_what_the_prompt_is_made_of(tmp_path, path, body):
    (broken, record), (unbroken, other) = await broken_and_unbroken(tmp_path, path, body)
    assert record.attempts == 2
    assert text_of(broken) == text_of(unbroken)
    assert shapes(broken) == shapes(unbroken)
    assert record.input_tokens == other.input_tokens


async def test_an_engine_whose_core_dies_says_so_and_the_client_does_not_hear_it(tmp_path):
    for path, body in ((MESSAGES, long_message()), (RESPONSES, long_response())):
        (tmp_path / path[4:]).mkdir()
        (broken, record), (unbroken, _) = await broken_and_unbroken(
            tmp_path / path[4:], path, body, crash_after_tokens=9, crash_mode="engine_dead"
        )
        assert (record.attempts, record.outcome) == (2, "completed")
        assert shapes(broken) == shapes(unbroken)


ROLE = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"demo-chat","choices":[{"index":0,'
    b'"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],'
    b'"usage":{"prompt_tokens":9,"total_tokens":9,"completion_tokens":0}}\n\n'
)
DEAD = b'data: {"error":{"message":"EngineCore died","type":"InternalServerError","param":null,"code":500}}\n\n'
DEAD += b"data: [DONE]\n\n"
NAMED_DEAD = b'event: error\ndata: {"type":"error","error":{"type":"internal_error","message":"EngineCore died"}}\n\n'


@pytest.mark.parametrize(
    ("path", "body", "sent"),
    [
        ("/v1/chat/completions", long_message(), DEAD),
        ("/v1/chat/completions", long_message(), ROLE + DEAD),
        (MESSAGES, long_message(), NAMED_DEAD),
        (RESPONSES, long_response(), NAMED_DEAD),
    ],
)
async def test_an_engine_that_dies_with_its_first_word_is_not_heard(tmp_path, path, body, sent):
    async with fake_engine(*ENGINE) as good, scripted_engine(stream([sent])) as bad:
        snapshot = snapshot_for(("demo-chat", 100, [bad.port, good.port]))
        async with running_gateway(tmp_path, snapshot) as gateway:
            answers = [await gateway.call("POST", path, body) for _ in range(3)]
            records = gateway.records()
    assert max(record.attempts for record in records) == 2
    assert {record.outcome for record in records} == {"completed"}
    assert all(b"EngineCore" not in answer.body for answer in answers)
    assert len({answer.body.count(b"delta") > 1 for answer in answers}) == 1


async def test_the_numbers_of_a_response_go_on(tmp_path):
    (broken, _), _ = await broken_and_unbroken(tmp_path, RESPONSES, long_response())
    events = named_events(broken)
    assert [event["sequence_number"] for _, event in events] == list(range(len(events)))
    last = events[-1][1]["response"]
    assert last["output"][0]["content"][0]["text"] == text_of(broken)
    assert last["id"] == events[0][1]["response"]["id"]
    assert {event["item_id"] for _, event in events if "item_id" in event} == {last["output"][0]["id"]}


async def test_engines_may_die_one_after_the_other(tmp_path):
    for path, body in ((MESSAGES, long_message()), (RESPONSES, long_response())):
        directory = tmp_path / path[4:]
        directory.mkdir()
        async with (
            fake_engine(*ENGINE) as one,
            fake_engine(*ENGINE) as two,
            running_gateway(directory, with_shape(one_at_a_time([one.port, two.port]), 0.2)) as gateway,
        ):
            whole = await gateway.call("POST", path, body)
            for engine in (one, two):
                await set_fault(engine, reset_after_tokens=25)
            broken = await gateway.call("POST", path, body)
            record = gateway.records()[-1]
        assert record.attempts == 3
        assert text_of(broken) == text_of(whole)
        assert shapes(broken) == shapes(whole)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            MESSAGES,
            long_message(tools=[CLAUDES_TOOL], tool_choice={"type": "none"}),
        ),
        (MESSAGES, long_message(thinking={"type": "enabled", "budget_tokens": 1024})),
        (MESSAGES, long_message(x_unknown=1)),
        (RESPONSES, long_response(text={"format": {"type": "json_object"}})),
        (RESPONSES, long_response(input=[{"role": "assistant", "status": "incomplete", "content": "so"}])),
    ],
)
async def test_what_is_not_certain_ends_with_the_apis_own_error_event(tmp_path, path, body):
    (broken, record), _ = await broken_and_unbroken(tmp_path, path, body)
    name, event = named_events(broken)[-1]
    assert name == "error"
    assert "engine failed" in (event.get("message") or event["error"]["message"])
    assert (record.outcome, record.error_code, record.attempts) == ("failed", "engine_died", 1)


async def test_the_official_sdks_read_it_as_one_answer(tmp_path):
    async with (
        fake_engine(*ENGINE) as good,
        fake_engine(*ENGINE) as bad,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [good.port, bad.port]))) as gateway,
    ):
        await set_fault(bad, reset_after_tokens=5)
        url = f"http://127.0.0.1:{gateway.port}"
        asked = {"model": "demo-chat", "max_tokens": 30, "messages": [{"role": "user", "content": "tell me"}]}
        async with (
            anthropic.AsyncAnthropic(base_url=url, auth_token=KEYS["gold"], max_retries=0) as claude,
            openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEYS["gold"], max_retries=0) as gpt,
        ):

            async def ask_claude():
                async with claude.messages.stream(**asked) as stream:
                    return (await stream.get_final_message()).content[0].text

            async def ask_gpt():
                async with gpt.responses.stream(model="demo-chat", input="tell me", max_output_tokens=30) as events:
                    return (await events.get_final_response()).output_text

            # At the same time, so that one of them is at the engine that breaks.
            texts = {text for _ in range(4) for text in await asyncio.gather(ask_claude(), ask_gpt())}
        assert len(texts) == 1
        assert max(record.attempts for record in gateway.records()) > 1
