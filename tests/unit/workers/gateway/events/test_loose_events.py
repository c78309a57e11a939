"""Usage is read, and taken out again, however an engine writes its events."""

import json
import re

import pytest

from tests.support.respelling import RESPELLINGS, with_spaced_json, without_space
from tests.support.vllm_samples import load_sample
from workers.contracts.endpoints import Endpoint
from workers.gateway.apis.anthropic import Anthropic
from workers.gateway.apis.responses import Responses
from workers.gateway.events.dialects import dialect_of
from workers.gateway.events.loose_events import read_loose
from workers.gateway.events.streams import StreamFilter

pytestmark = pytest.mark.unit

VLLM = dialect_of(Endpoint(endpoint_id="e", version_id="v", base_url=""))
CHAT = load_sample("chat_stream_continuous_usage").response.body
MESSAGES = load_sample("anthropic_messages_stream").response.body
RESPONSES = load_sample("responses_stream").response.body


def run(stream, body):
    return b"".join([stream.feed(body[i : i + 7]) for i in range(0, len(body), 7)]) + stream.finish()


def chat(*, is_hidden, rename=None):
    return StreamFilter(VLLM, hide_usage=is_hidden, hide_counts=is_hidden, rename=rename)


def data_of(body):
    return [json.loads(found) for found in re.findall(rb"data: ?(\{.*\})", body)]


@pytest.mark.parametrize("respell", RESPELLINGS)
def test_usage_of_a_chat_is_read_and_its_bytes_pass(respell):
    stream = chat(is_hidden=False)
    assert run(stream, respell(CHAT)) == respell(CHAT)
    assert (stream.usage.prompt_tokens, stream.usage.completion_tokens) == (34, 4)
    assert stream.events_with_output == 4
    assert stream.has_ended


@pytest.mark.parametrize("respell", RESPELLINGS)
def test_usage_that_the_client_did_not_ask_for_is_taken_out(respell):
    stream = chat(is_hidden=True)
    body = run(stream, respell(CHAT))
    assert b"usage" not in body
    assert stream.usage.completion_tokens == 4
    assert len(data_of(body)) == len(data_of(CHAT)) - 1


@pytest.mark.parametrize("respell", RESPELLINGS)
def test_a_stream_cut_short_tells_what_came(respell):
    stream = chat(is_hidden=True)
    stream.feed(b"\n\n".join(respell(CHAT).split(b"\n\n")[:3]) + b"\n\n")
    assert (stream.usage.prompt_tokens, stream.usage.completion_tokens) == (34, 2)


@pytest.mark.parametrize("respell", RESPELLINGS)
def test_the_model_gets_its_public_name(respell):
    body = run(chat(is_hidden=False, rename=("smollm2", "public")), respell(CHAT))
    assert {event["model"] for event in data_of(body)} == {"public"}


@pytest.mark.parametrize("respell", RESPELLINGS)
@pytest.mark.parametrize(("api", "sent"), [(Anthropic(), MESSAGES), (Responses(), RESPONSES)])
def test_usage_of_named_events_is_read_and_their_bytes_pass(respell, api, sent):
    named, plain = api.open_stream(None, keeps_text=True), api.open_stream(None)
    assert run(named, respell(sent)) == respell(sent)
    run(plain, sent)
    assert named.usage == plain.usage
    assert named.events_with_output == plain.events_with_output == 8
    assert named.has_ended


@pytest.mark.parametrize("respell", RESPELLINGS)
def test_a_message_gets_its_public_name(respell):
    body = run(Anthropic().open_stream(("smollm2", "public")), respell(MESSAGES))
    assert next(event for event in data_of(body) if "message" in event)["message"]["model"] == "public"


def test_an_error_is_noticed_however_it_is_written():
    for error in (b'data:{"error":{"code":500}}\n\n', b'data: {"x": 1, "error": {"code": 400}}\n\n'):
        stream = chat(is_hidden=True)
        assert run(stream, error) == error
        assert stream.has_error


@pytest.mark.parametrize("event", [b": comment", b"data:[DONE]", b"data: {", b"data: {}\ndata: {}", b"data:[1]", b""])
def test_what_holds_no_object_is_not_read(event):
    assert read_loose(event) is None
    assert run(chat(is_hidden=True), event + b"\n\n") == event + b"\n\n"


def test_only_what_changes_is_written_anew_and_with_the_same_spaces():
    event = read_loose(b'id: 1\ndata:{"a": 1.50, "usage": {"x": [1,2]}, "b":  "\\u00e9" }\nretry: 3')
    event.remove("usage")
    assert event.shown() == b'id: 1\ndata:{"a": 1.50, "b": "\\u00e9"}\nretry: 3'
    assert read_loose(without_space(with_spaced_json(CHAT)).split(b"\n\n")[0]).has_choices
