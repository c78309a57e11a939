"""Real vLLM goes on from a text that another engine began; its client reads what one engine would have said."""

import asyncio

import pytest

from tests.integration.gateway.test_migration_named import named_events
from tests.integration.gateway.test_migration_named import text_of as named_text_of
from tests.support.cutting import EVENTS_BEFORE_THE_CUT, cutting_proxy
from tests.support.gateways import chat_body, message_body, response_body, running_gateway, snapshot_for

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


def text_of(answer):
    choices = [event["choices"][0] for event in answer.events() if event != "[DONE]" and event["choices"]]
    return "".join(choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices)


async def one_whole_and_one_cut(vllm_port, tmp_path, path, body):
    async with cutting_proxy(vllm_port) as cut_port:
        snapshot = snapshot_for(("demo-chat", 100, [vllm_port, cut_port]))
        async with running_gateway(tmp_path, snapshot) as gateway:
            answers = await asyncio.gather(*[gateway.call("POST", path, body) for _ in range(2)])
            records = await gateway.wait_for_records(2)
    assert sorted(record.attempts for record in records) == [1, 2]
    return answers, records


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", chat_body("Tell me about rivers in three sentences.")),
        ("/v1/completions", {"model": "demo-chat", "prompt": "The river"}),
    ],
)
async def test_a_greedy_answer_goes_on_word_for_word(vllm_port, tmp_path, path, body):
    body = body | {
        "temperature": 0,
        "max_tokens": 40,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    answers, records = await one_whole_and_one_cut(vllm_port, tmp_path, path, body)
    assert text_of(answers[0]) == text_of(answers[1])
    [output_tokens] = {record.output_tokens for record in records}
    told = {event["usage"]["completion_tokens"] for answer in answers for event in answer.events()[-2:-1]}
    assert told == {output_tokens}
    assert output_tokens > EVENTS_BEFORE_THE_CUT
    assert {len({(event["id"], event["created"]) for event in answer.events()[:-1]}) for answer in answers} == {1}


QUESTION = "Tell me about rivers in three sentences."


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", message_body(QUESTION, max_tokens=40, system="Be clear.")),
        ("/v1/responses", response_body(QUESTION, max_output_tokens=40, instructions="Be clear.")),
    ],
)
async def test_so_do_messages_and_responses(vllm_port, tmp_path, path, body):
    body = body | {"temperature": 0, "stream": True}
    answers, records = await one_whole_and_one_cut(vllm_port, tmp_path, path, body)
    assert named_text_of(answers[0]) == named_text_of(answers[1])
    assert len({(record.input_tokens, record.output_tokens) for record in records}) == 1
    one, other = [[name for name, _ in named_events(answer)] for answer in answers]
    assert list(dict.fromkeys(one)) == list(dict.fromkeys(other))
    [last, other_last] = [tail_of(answer) for answer in answers]
    assert last == other_last


def tail_of(answer):
    """What the events that end the answer tell, without what is each answer's own."""
    name, event = named_events(answer)[-2 if b"message_stop" in answer.body else -1]
    if name == "message_delta":
        return event["delta"], event["usage"]["input_tokens"], event["usage"]["output_tokens"]
    response = event["response"]
    usage = response["usage"]
    return response["status"], response["incomplete_details"], usage["input_tokens"], usage["output_tokens"]
