"""An engine that dies in a stream is not noticed by its client: another goes on from the prompt and the text."""

import asyncio

import pytest
from msgspec import structs

from tests.support.fake_engines import fake_engine
from tests.support.gateways import chat_body, running_gateway, snapshot_for, with_shape
from tests.support.raw_http import call

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
ENGINE = ("--served-model-name", "demo-chat", "--time-scale", "0.2")
SHOWS_USAGE = {"stream_options": {"include_usage": True}}
SHOWS_ALL_USAGE = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}


async def set_fault(engine, **faults):
    assert (await call(engine.port, "POST", "/fake/faults", faults)).status == 200


def long_chat(**fields):
    return chat_body("tell me", **({"max_tokens": 60, "ignore_eos": True, "stream": True} | fields))


def long_completion(**fields):
    prompt = {"model": "demo-chat", "prompt": "once upon a time", "max_tokens": 60}
    return prompt | {"ignore_eos": True, "stream": True} | fields


def one_at_a_time(ports):
    """So that of two requests each gets an engine of its own."""
    snapshot = snapshot_for(("demo-chat", 100, ports))
    narrow = [structs.replace(endpoint, max_running_requests=1) for endpoint in snapshot.endpoints]
    return structs.replace(snapshot, endpoints=narrow)


async def broken_and_unbroken(tmp_path, path, body, *, warm=False, **faults):
    """Two answers to the same question, of which the engine of one failed, each with its record."""
    async with (
        fake_engine(*ENGINE) as good,
        fake_engine(*ENGINE) as bad,
        running_gateway(tmp_path, with_shape(one_at_a_time([good.port, bad.port]), 0.2)) as gateway,
    ):
        if warm:  # so that the engines' fingerprints are known
            await asyncio.gather(*[gateway.call("POST", path, body | {"max_tokens": 2}) for _ in range(4)])
        await set_fault(bad, **(faults or {"reset_after_tokens": 7}))
        ids = ("first", "second")
        asked = [gateway.call("POST", path, body, headers={"X-Request-Id": request_id}) for request_id in ids]
        answers = dict(zip(ids, await asyncio.gather(*asked), strict=True))
        records = {record.request_id: record for record in gateway.records() if record.request_id in ids}
        unbroken, broken = sorted(ids, key=lambda request_id: records[request_id].attempts)
    return (answers[broken], records[broken]), (answers[unbroken], records[unbroken])


def shapes(answer):
    """Events without text and what is each answer's own, each kind once: how many tokens come together is chance."""
    kinds = []
    for event in answer.events():
        kind = blank(event)
        if not kinds or kinds[-1] != kind:
            kinds.append(kind)
    return kinds


def blank(event):
    if event == "[DONE]":
        return event
    event = {name: value for name, value in event.items() if name not in {"id", "created", "metrics"}}
    for choice in event["choices"]:
        if "text" in choice:
            choice["text"] = ""
        elif choice["delta"].get("content"):
            choice["delta"]["content"] = "text"
    if "usage" in event:
        event["usage"] = sorted(event["usage"])
    return event


def counts(answer):
    """The output tokens so far of each event that tells them."""
    return [event["usage"]["completion_tokens"] for event in answer.events() if event != "[DONE]" and "usage" in event]


def text_of(answer):
    choices = [event["choices"][0] for event in answer.events() if event != "[DONE]" and event["choices"]]
    return "".join(choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("shows", [{}, SHOWS_USAGE, SHOWS_ALL_USAGE])
@pytest.mark.parametrize(("path", "body"), [(CHAT, long_chat()), (COMPLETIONS, long_completion())])
async def test_the_client_sees_one_unbroken_stream(tmp_path, path, body, shows, warm):
    (broken, record), (unbroken, other) = await broken_and_unbroken(tmp_path, path, body | shows, warm=warm)
    assert (record.attempts, other.attempts) == (2, 1)
    assert text_of(broken) == text_of(unbroken)
    assert shapes(broken) == shapes(unbroken)
    assert counts(broken) == sorted(counts(broken))
    assert counts(broken)[-1:] == counts(unbroken)[-1:]
    heads = {(event["id"], event["created"], event["model"]) for event in broken.events()[:-1]}
    assert len(heads) == 1


async def test_it_leaves_one_record_with_the_tokens_of_both_engines(tmp_path):
    (broken, record), (_, other) = await broken_and_unbroken(tmp_path, CHAT, long_chat(**SHOWS_USAGE))
    assert (record.outcome, record.status, record.usage_source) == ("completed", 200, "engine")
    assert (record.input_tokens, record.output_tokens) == (other.input_tokens, 60)
    assert record.cost_pico_usd == other.cost_pico_usd
    assert record.wasted_tokens == 0
    usage = broken.events()[-2]["usage"]
    assert (usage["completion_tokens"], usage["total_tokens"]) == (60, 60 + record.input_tokens)


async def test_an_answer_that_ends_by_itself_ends_where_it_would_have(tmp_path):
    body = long_chat(ignore_eos=False, max_tokens=2000)
    (broken, record), (unbroken, _) = await broken_and_unbroken(tmp_path, CHAT, body)
    assert record.attempts == 2
    assert text_of(broken) == text_of(unbroken)


async def test_an_answer_that_the_client_has_begun_is_gone_on_with(tmp_path):
    messages = [{"role": "user", "content": "tell me"}, {"role": "assistant", "content": "so it \u00fcber began"}]
    body = long_chat(messages=messages, continue_final_message=True, add_generation_prompt=False)
    (broken, record), (unbroken, _) = await broken_and_unbroken(tmp_path, CHAT, body)
    assert record.attempts == 2
    assert text_of(broken) == text_of(unbroken)
    assert shapes(broken) == shapes(unbroken)


async def test_an_engine_whose_core_dies_says_so_in_the_stream_and_the_client_does_not_hear_it(tmp_path):
    (broken, record), (unbroken, _) = await broken_and_unbroken(
        tmp_path, CHAT, long_chat(), crash_after_tokens=25, crash_mode="engine_dead"
    )
    assert (record.attempts, record.outcome) == (2, "completed")
    assert text_of(broken) == text_of(unbroken)
    assert shapes(broken) == shapes(unbroken)


@pytest.mark.parametrize(
    "fields",
    [
        {"logprobs": True},
        {"n": 2},
        {"response_format": {"type": "json_object"}},
        {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"},
        {"presence_penalty": 0.5},
        {"prompt_logprobs": 1},
    ],
)
async def test_what_the_text_alone_does_not_determine_ends_with_a_clear_error(tmp_path, fields):
    (broken, record), _ = await broken_and_unbroken(tmp_path, CHAT, long_chat(**fields))
    *_, error, done = broken.events()
    assert (error["error"]["code"], done) == ("engine_died", "[DONE]")
    assert (record.outcome, record.error_code, record.attempts) == ("failed", "engine_died", 1)


@pytest.mark.parametrize("fields", [{"prompt": [1, 2, 3]}, {"echo": True}, {"suffix": "x"}])
async def test_so_do_completions_of_token_ids_with_an_echo_or_a_suffix(tmp_path, fields):
    (broken, record), _ = await broken_and_unbroken(tmp_path, COMPLETIONS, long_completion(**fields))
    assert broken.events()[-2]["error"]["code"] == "engine_died"
    assert record.outcome == "failed"


async def test_when_every_engine_fails_the_stream_ends_with_an_error_and_what_was_generated(tmp_path):
    async with (
        fake_engine(*ENGINE) as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as gateway,
    ):
        await set_fault(engine, reset_after_tokens=5)
        answer = await gateway.call("POST", CHAT, long_chat())
        [record] = await gateway.wait_for_records(1)
    assert answer.events()[-2]["error"]["code"] == "engine_died"
    assert (record.attempts, record.outcome) == (3, "failed")
    assert record.output_tokens == len(text_of_events(answer).split()) >= 15


def text_of_events(answer):
    choices = [event["choices"][0] for event in answer.events()[:-2]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


async def test_a_client_that_leaves_while_its_stream_waits_for_another_engine_pays_for_what_it_got(tmp_path):
    async with fake_engine(*ENGINE) as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        async with running_gateway(tmp_path, snapshot) as gateway:
            await set_fault(engine, reset_after_tokens=5, error_rate=0.0)
            asked = asyncio.create_task(gateway.call("POST", CHAT, long_chat()))
            while not gateway.service._driver.scheduler.queued_total():  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.002)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            [record] = await gateway.wait_for_records(1)
    assert (record.outcome, record.usage_source) == ("client_left", "engine")
    assert 5 <= record.output_tokens < 60
