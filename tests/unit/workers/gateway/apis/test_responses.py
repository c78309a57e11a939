import json

import pytest

from tests.support.vllm_samples import load_sample
from workers.gateway import errors
from workers.gateway.apis.responses import Responses

pytestmark = pytest.mark.unit

STREAM = load_sample("responses_stream").response.body
API = Responses()


def run(stream, *chunks):
    return b"".join(stream.feed(chunk) for chunk in chunks) + stream.finish()


def test_usage_and_the_time_to_the_first_token_of_a_whole_answer_are_read():
    answer = API.read_answer(load_sample("responses").response.body)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (31, 8)
    assert answer.metrics.time_to_first_token_ms == pytest.approx(1771.035, abs=0.01)


def test_cached_and_reasoning_tokens_are_read():
    body = (
        b'{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},'
        b'"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3}}}'
    )
    usage = API.read_answer(body).usage
    assert (usage.cached_tokens, usage.reasoning_tokens) == (4, 3)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"usage":null}', b'{"usage":[]}'])
def test_an_answer_without_usage_tells_nothing(body):
    assert API.read_answer(body).usage is None


def test_a_stream_passes_byte_for_byte_one_byte_at_a_time():
    stream = API.open_stream(None)
    assert run(stream, *[STREAM[i : i + 1] for i in range(len(STREAM))]) == STREAM
    assert (stream.usage.prompt_tokens, stream.usage.completion_tokens) == (31, 8)


def test_a_stream_that_has_only_begun_has_no_first_token():
    stream = API.open_stream(None)
    stream.feed(STREAM[: STREAM.index(b"event: response.output_text.delta")])
    assert not stream.has_first_token
    assert stream.usage is None


def test_a_stream_cut_short_is_counted_by_its_events():
    stream = API.open_stream(None)
    stream.feed(STREAM[: STREAM.index(b"event: response.output_text.done")])
    assert (stream.usage, stream.input_tokens, stream.events_with_output) == (None, None, 8)


OPENING = STREAM[: STREAM.index(b"event: response.output_item.added")]
TOLD = b'{"type":"response.failed","response":{"model":"demo-chat","usage":{"input_tokens":7,"output_tokens":0}}}'
FAILURES = [
    b'event: error\ndata: {"type":"error","code":"x","message":"y","param":null,"sequence_number":2}\n\n',
    b'event: response.failed\ndata: {"type":"response.failed","response":{"error":{"code":"x"},"usage":null}}\n\n',
    b'event: unknown\ndata: {"error":{"message":"EngineCore died","code":500}}\n\n',
    b'data: {"error": {"message": "EngineCore died", "code": 500}}\n\n',
    b'data: {"type":"response.failed","response":{"usage":null}}\n\n',
]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_before_any_output_is_one_however_it_is_told(failure):
    stream = API.open_stream(None)
    assert run(stream, OPENING, failure) == OPENING + failure
    assert (stream.has_error, stream.failed_at_once) == (True, True)


@pytest.mark.parametrize("failure", FAILURES[:3])
def test_a_failure_is_held_back_while_another_engine_may_go_on(failure):
    stream = API.open_stream(None, keeps_text=True)
    assert stream.feed(OPENING + failure) == OPENING
    assert (stream.has_error, stream.release_error()) == (True, failure)


def test_a_failure_that_tells_usage_is_read_and_named():
    stream = API.open_stream(("demo-chat", "public"))
    body = run(stream, OPENING, b"event: response.failed\ndata: " + TOLD + b"\n\n")
    assert (stream.usage.prompt_tokens, stream.failed_at_once) == (7, False)
    assert b"demo-chat" not in body


def test_an_error_that_is_none_is_none():
    stream = API.open_stream(None)
    run(stream, b'data: {"type":"response.created","error": null}\n\n', STREAM)
    assert not stream.has_error


def test_the_model_gets_its_public_name_wherever_it_is_named():
    stream = API.open_stream(("demo-chat", "public"))
    body = run(stream, STREAM)
    assert body == STREAM.replace(b'"model":"demo-chat"', b'"model":"public"')
    assert body.count(b'"model":"public"') == 3


def test_metadata_that_names_a_model_is_left_alone():
    stream = API.open_stream(("inner", "public"))
    event = b'event: response.created\ndata: {"response":{"metadata":{"model":"inner"},"model":"inner"},"n":1}\n\n'
    assert run(stream, event) == event.replace(b'},"model":"inner"', b'},"model":"public"')


@pytest.mark.parametrize("data", [b"[1]", b"{half", b'{"response":7}', b'{"response":{}}', b"{}"])
def test_events_that_are_not_what_an_engine_sends_pass(data):
    stream = API.open_stream(("inner", "public"))
    event = b"event: response.completed\ndata: " + data + b"\n\n"
    assert run(stream, event) == event
    assert stream.usage is None


def test_an_error_in_a_stream_goes_on_with_the_numbers():
    stream = API.open_stream(None)
    stream.feed(STREAM[: STREAM.index(b"event: response.output_text.done")])
    name, data, *_ = API.error_event(errors.engine_died(), stream).split(b"\n")
    assert name == b"event: error"
    error = json.loads(data.removeprefix(b"data: "))
    assert (error["type"], error["code"]) == ("error", "engine_died")
    assert error["sequence_number"] == 12


def test_an_error_before_any_event_has_number_zero():
    event = API.error_event(errors.engine_died(), API.open_stream(None))
    assert json.loads(event.split(b"data: ")[1])["sequence_number"] == 0
