import json

import pytest

from workers.gateway.apis.spoken import SpokenMessage, SpokenResponse
from workers.gateway.apis.voices import End, MessageVoice, ResponseVoice
from workers.gateway.payload.bodies import Usage

pytestmark = pytest.mark.unit

CREATED = b'{"response":{"id":"resp_1","model":"inside","output":[],"usage":null},"sequence_number":0}'
ADDED = b'{"item":{"id":"msg_9","type":"message"},"output_index":0,"sequence_number":2}'
PART = b'{"part":{"type":"output_text","text":""},"sequence_number":3}'
BLOCK = b'{"content_block":{"type":"text","text":""},"index":0}'


def said(events):
    found = [event.split("\ndata: ") for event in events.decode().split("\n\n") if event]
    return [(name.removeprefix("event: "), json.loads(data)) for name, data in found]


def message(*noted):
    spoken = SpokenMessage()
    spoken.note(b"message_start", b'{"message":{}}')
    for name, data in noted:
        spoken.note(name, data)
    return spoken


def response(*noted):
    spoken = SpokenResponse()
    spoken.note(b"response.created", CREATED)
    for name, data in noted:
        spoken.note(name, data)
    return spoken


def delta(text):
    return b"content_block_delta", b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"%b"}}' % text


def test_a_text_is_kept_as_it_stands_in_the_json():
    spoken = message((b"content_block_start", BLOCK), delta(b'one \\u00fc \\"'), delta(b" two\\n"))
    assert spoken.text == b'one \\u00fc \\" two\\n'


@pytest.mark.parametrize(
    "noted",
    [
        [(b"content_block_start", b'{"content_block":{"type":"tool_use"}}')],
        [(b"content_block_start", BLOCK), (b"content_block_start", BLOCK)],
        [(b"content_block_start", BLOCK), (b"content_block_delta", b'{"delta":{"type":"thinking_delta"}}')],
        [delta(b"without a beginning")],
    ],
)
def test_what_is_more_than_a_text_cannot_be_gone_on_with(noted):
    assert message(*noted).text is None


@pytest.mark.parametrize("name", [b"response.reasoning_text.delta", b"response.function_call_arguments.delta"])
def test_neither_can_a_response_that_does_more_than_speak(name):
    assert response((name, b'{"delta":"x"}')).text is None


def test_a_message_goes_on_without_a_second_beginning():
    voice = MessageVoice(message((b"content_block_start", BLOCK), delta(b"so ")))
    assert [name for name, _ in said(voice.say("on"))] == ["content_block_delta"]
    assert voice.spoken.text == b"so on"


def test_a_message_that_had_not_begun_begins():
    assert [name for name, _ in said(MessageVoice(message()).say("on"))] == [
        "content_block_start",
        "content_block_delta",
    ]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (End("length", None, Usage.of(9, 5)), "max_tokens"),
        (End("stop", None, Usage.of(9, 5)), "end_turn"),
        (End("stop", "zebra", Usage.of(9, 5)), "stop_sequence"),
    ],
)
def test_a_message_ends_with_what_is_missing(end, reason):
    started = [(b"content_block_start", BLOCK), delta(b"so"), (b"content_block_stop", b"{}")]
    [(name, ended), (last, _)] = said(MessageVoice(message(*started)).close(end))
    assert (name, last) == ("message_delta", "message_stop")
    assert (ended["delta"]["stop_reason"], ended["delta"]["stop_sequence"]) == (reason, end.stop)
    assert (ended["usage"]["input_tokens"], ended["usage"]["output_tokens"]) == (9, 5)


def test_a_responses_numbers_and_names_go_on():
    started = [(b"response.output_item.added", ADDED), (b"response.content_part.added", PART)]
    voice = ResponseVoice(response(*started), "public")
    events = said(voice.say("so ") + voice.say("on") + voice.close(End("length", None, Usage.of(9, 5))))
    assert [event["sequence_number"] for _, event in events] == [4, 5, 6, 7, 8, 9]
    assert {event["item_id"] for _, event in events if "item_id" in event} == {"msg_9"}
    last = events[-1][1]["response"]
    assert (last["id"], last["model"], last["status"]) == ("resp_1", "public", "incomplete")
    assert last["output"][0]["content"][0]["text"] == "so on"
    assert last["usage"]["total_tokens"] == 14


def test_a_response_that_had_not_begun_begins_with_an_item_of_its_own():
    names = [name for name, _ in said(ResponseVoice(response(), "public").say("on"))]
    assert names == ["response.output_item.added", "response.content_part.added", "response.output_text.delta"]
