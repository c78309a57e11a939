import json

import msgspec
import pytest

from workers.gateway.apis.paths import ENGINE_PATHS
from workers.gateway.attempts.asking import Question
from workers.gateway.events.dialects import VLLMDialect
from workers.gateway.events.streams import StreamFilter
from workers.gateway.exchanges.continuing import continue_from
from workers.gateway.http.heads import RequestHead
from workers.gateway.http.requests import HttpRequest
from workers.gateway.payload.bodies import peek
from workers.gateway.payload.peeks import output_limit_of

pytestmark = pytest.mark.unit

CHAT = b"/v1/chat/completions"
COMPLETIONS = b"/v1/completions"
MESSAGES = [{"role": "user", "content": "hi"}]
TEXT = ' so "it"\\ b\u00e9gan\n'


def question(path, body):
    head = RequestHead(b"POST", path, [], is_http_10=False, keeps_alive=True)
    content = json.dumps(body).encode()
    found = peek(content)
    request = HttpRequest(head, content, 0.0, keeps_alive=True)
    limit = output_limit_of(found, ENGINE_PATHS[path].limit_fields)
    return Question(request, ENGINE_PATHS[path], "r", b"", found, public_model="m", served_name="m", output_limit=limit)


def event(path, text, number, finish=None):
    content = {"delta": {"content": text}} if path == CHAT else {"text": text}
    choice = {"index": 0} | content | {"logprobs": None, "finish_reason": finish}
    usage = {"prompt_tokens": 5, "total_tokens": 5 + number, "completion_tokens": number}
    fields = {"id": "i", "object": "o", "created": 7, "model": "m", "choices": [choice], "usage": usage}
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"


def stream_of(path, *texts, finish=None):
    mark = ENGINE_PATHS[path].text_mark
    stream = StreamFilter(
        VLLMDialect(is_continuous=True), hide_usage=True, hide_counts=True, text_mark=mark, keeps_text=True
    )
    for number, text in enumerate(texts, 1):
        stream.feed(event(path, text, number, finish if number == len(texts) else None))
    return stream


def continued(path, body, *texts, finish=None):
    found = continue_from(question(path, {"model": "m", "stream": True} | body), stream_of(path, *texts, finish=finish))
    return found if found is None else (found, json.loads(found.body))


def test_a_chat_goes_on_from_the_answer_so_far_with_what_is_left_of_its_limit():
    found, body = continued(CHAT, {"messages": MESSAGES, "max_tokens": 10, "min_tokens": 2}, TEXT, " more")
    assert body["messages"] == [*MESSAGES, {"role": "assistant", "content": TEXT + " more"}]
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    assert (body["max_tokens"], body["min_tokens"], found.generated_tokens) == (8, 0, 2)


def test_a_completion_goes_on_from_its_prompt_and_the_text():
    _, body = continued(COMPLETIONS, {"prompt": 'say "it"', "max_tokens": 10}, TEXT)
    assert (body["prompt"], body["max_tokens"]) == ('say "it"' + TEXT, 9)


def test_an_answer_that_the_client_began_itself_is_one_message():
    begun = [*MESSAGES, {"role": "assistant", "content": 'It "was"'}]
    _, body = continued(CHAT, {"messages": begun, "continue_final_message": True}, TEXT)
    assert body["messages"] == [*MESSAGES, {"role": "assistant", "content": 'It "was"' + TEXT}]


def test_fields_that_nobody_knows_go_along():
    _, body = continued(CHAT, {"messages": MESSAGES, "top_k": 3, "chat_template_kwargs": {"a": 1}}, "x")
    assert (body["top_k"], body["chat_template_kwargs"]) == (3, {"a": 1})


@pytest.mark.parametrize(
    "fields",
    [
        {"logprobs": True},
        {"response_format": {"type": "json_schema", "json_schema": {}}},
        {"tools": [{"type": "function"}]},
        {"structured_outputs": {"regex": "a+"}},
        {"guided_json": {}, "guided_regex": "a"},
        {"frequency_penalty": 0.1},
        {"add_generation_prompt": False},
        {"return_token_ids": True},
        {"messages": [{"role": "assistant", "content": [{"type": "text"}]}], "continue_final_message": True},
    ],
)
def test_what_the_text_alone_does_not_determine_is_not_continued(fields):
    assert continued(CHAT, {"messages": MESSAGES} | fields, "x") is None


@pytest.mark.parametrize(
    "fields",
    [{"logprobs": 0}, {"echo": True}, {"best_of": 2}, {"prompt": [1, 2]}, {"prompt": ["a", "b"]}, {"max_tokens": None}],
)
def test_nor_are_completions_with_more_than_one_plain_text(fields):
    assert continued(COMPLETIONS, {"prompt": "a", "max_tokens": 9} | fields, "x") is None


@pytest.mark.parametrize(
    "fields",
    [{"response_format": {"type": "text"}}, {"tools": [{}], "tool_choice": "none"}, {"logprobs": False}, {"tools": []}],
)
def test_fields_that_change_nothing_stand_in_nobodys_way(fields):
    assert continued(CHAT, {"messages": MESSAGES} | fields, "x") is not None


@pytest.mark.parametrize("delta", [{"reasoning_content": "hm"}, {"tool_calls": []}, {"content": "a", "refusal": "b"}])
def test_a_stream_with_more_than_text_in_it_is_not_continued(delta):
    stream = stream_of(CHAT, "x")
    fields = msgspec.json.decode(event(CHAT, "y", 2)[6:])
    fields["choices"][0]["delta"] = delta
    stream.feed(b"data: " + msgspec.json.encode(fields) + b"\n\n")
    assert continue_from(question(CHAT, {"model": "m", "messages": MESSAGES}), stream) is None


def test_of_an_engine_that_does_not_count_nothing_is_continued():
    stream = StreamFilter(
        VLLMDialect(is_continuous=False),
        hide_usage=True,
        hide_counts=True,
        text_mark=ENGINE_PATHS[CHAT].text_mark,
        keeps_text=True,
    )
    plain = msgspec.json.decode(event(CHAT, "x", 1)[6:])
    del plain["usage"]
    stream.feed(b"data: " + msgspec.json.encode(plain) + b"\n\n")
    assert continue_from(question(CHAT, {"model": "m", "messages": MESSAGES}), stream) is None


def test_of_a_text_that_is_complete_only_the_end_is_missing():
    fields = {"messages": MESSAGES, "stream_options": {"include_usage": True}}
    found, _ = continued(CHAT, fields, "a", "b", finish="stop")
    assert found.is_complete
    usage, done = found.ending().split(b"\n\n")[:2]
    assert json.loads(usage[6:])["usage"] == {"prompt_tokens": 5, "total_tokens": 7, "completion_tokens": 2}
    assert done == b"data: [DONE]"


def test_an_answer_at_its_limit_is_ended_as_the_engine_would_have():
    found, _ = continued(CHAT, {"messages": MESSAGES, "max_tokens": 2}, "a", "b")
    assert found.is_complete
    ending = json.loads(found.ending().split(b"\n\n")[0][6:])
    assert ending["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}]
    assert (ending["id"], ending["created"]) == ("i", 7)


def test_text_is_kept_as_it_came_however_it_is_cut():
    texts = [TEXT, "\\", '"', '"},"logprobs":null', '\\"', "\u2028", "", "end"]
    blob = b"".join(event(CHAT, text, number) for number, text in enumerate(texts, 1))
    for size in (1, 7, 64, 10_000):
        stream = stream_of(CHAT)
        for at in range(0, len(blob), size):
            stream.feed(blob[at : at + size])
        assert json.loads(b'"' + bytes(stream.text) + b'"') == "".join(texts)
