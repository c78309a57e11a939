import json

import pytest

from workers.gateway.bodies import ask_for_usage, peek, read_usage, replace_model
from workers.gateway.errors import GatewayError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("stream", ["true", "1", '"yes"', '"True"', '"on"'])
def test_stream_is_read_as_the_engine_reads_it(stream):
    assert peek(b'{"model":"m","stream":%b}' % stream.encode()).is_stream


@pytest.mark.parametrize("stream", ["false", "null", "0", '"no"', "2", "[]"])
def test_other_values_of_stream_are_no_stream(stream):
    assert not peek(b'{"model":"m","stream":%b}' % stream.encode()).is_stream


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"null", b'{"model":', b"\xff\xfe"])
def test_a_body_that_is_no_json_object_is_refused_with_400(body):
    with pytest.raises(GatewayError) as refusal:
        peek(body)
    assert (refusal.value.status, refusal.value.code) == (400, "invalid_json")


@pytest.mark.parametrize("body", [b"{}", b'{"model":null}', b'{"model":7}', b'{"model":""}'])
def test_a_body_without_a_model_is_refused_with_400(body):
    with pytest.raises(GatewayError) as refusal:
        peek(body)
    assert (refusal.value.status, refusal.value.code, refusal.value.param) == (400, "missing_model", "model")


def test_bodies_that_only_python_can_read_are_read_all_the_same():
    body = b'{"model":"m","stream":true,"temperature":NaN}'
    assert peek(body).is_stream
    assert json.loads(replace_model(body, "other"))["model"] == "other"


def test_another_model_leaves_every_other_byte_of_the_values_alone():
    body = b'{"a":1.50,"model":"x","s":"\\u00e9","n":[1, 2],"big":12345678901234567890123}'
    changed = replace_model(body, "y")
    assert changed == b'{"a":1.50,"model":"y","s":"\\u00e9","n":[1, 2],"big":12345678901234567890123}'


def test_usage_is_asked_for_without_touching_the_rest():
    body = b'{"model":"m", "stream": true }\n'
    assert ask_for_usage(body, peek(body), is_continuous=False) == (
        b'{"model":"m", "stream": true ,"stream_options":{"include_usage":true}}'
    )


def test_usage_is_added_to_the_options_that_are_there():
    body = b'{"model":"m","stream":true,"stream_options":{"include_usage":false,"x":1}}'
    options = json.loads(ask_for_usage(body, peek(body), is_continuous=True))["stream_options"]
    assert options == {"include_usage": True, "continuous_usage_stats": True, "x": 1}


@pytest.mark.parametrize("text", ["null", "{}"])
def test_empty_options_are_filled(text):
    body = b'{"model":"m","stream":true,"stream_options":%b}' % text.encode()
    assert json.loads(ask_for_usage(body, peek(body), is_continuous=False))["stream_options"] == {"include_usage": True}


def test_options_of_a_wrong_type_are_left_for_the_engine_to_refuse():
    body = b'{"model":"m","stream":true,"stream_options":"all"}'
    assert ask_for_usage(body, peek(body), is_continuous=True) == body


def test_usage_of_a_whole_answer_is_read():
    usage = read_usage(b'{"id":"x","usage":{"prompt_tokens":5,"completion_tokens":null,"prompt_tokens_details":null}}')
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (5, None, 0)


@pytest.mark.parametrize("answer", [b"", b"<html>", b'{"usage":null}', b'{"usage":"none"}', b"{}"])
def test_an_answer_without_usage_reads_as_unknown(answer):
    assert read_usage(answer) is None


def test_the_end_user_is_the_safety_identifier_before_the_user():
    assert peek(b'{"model":"m","user":"u","safety_identifier":"s"}').end_user == "s"
    assert peek(b'{"model":"m","user":"u"}').end_user == "u"
    assert peek(b'{"model":"m","user":7}').end_user == ""
