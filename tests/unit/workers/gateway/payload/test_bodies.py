import json

import pytest

from workers.gateway.apis.paths import ENGINE_PATHS
from workers.gateway.errors import GatewayError
from workers.gateway.payload.bodies import peek, read_answer, with_fields, with_model
from workers.gateway.payload.peeks import (
    choices_of,
    end_user_of,
    limit_of_all,
    output_limit_of,
    prompts_of,
    wants_stream,
)

pytestmark = pytest.mark.unit

LIMITS = ("max_completion_tokens", "max_tokens")


@pytest.mark.parametrize("stream", ["true", "1", '"yes"', '"True"', '"on"'])
def test_stream_is_read_as_the_engine_reads_it(stream):
    assert wants_stream(peek(b'{"model":"m","stream":%b}' % stream.encode()))


@pytest.mark.parametrize("stream", ["false", "null", "0", '"no"', "2", "[]"])
def test_other_values_of_stream_are_no_stream(stream):
    assert not wants_stream(peek(b'{"model":"m","stream":%b}' % stream.encode()))


@pytest.mark.parametrize("written", ["3", "3.0", '"3"', '" 3 "', '"3.0"'])
def test_a_whole_number_is_read_as_the_engine_reads_it(written):
    found = peek(b'{"model":"m","n":%b,"max_tokens":%b}' % (written.encode(), written.encode()))
    assert (choices_of(found), output_limit_of(found, LIMITS)) == (3, 3)


@pytest.mark.parametrize(
    "written", ["null", "0", "-2", "3.5", '"x"', '"nan"', '"inf"', "1e400", "[]", '"%s"' % ("9" * 99), "16385"]
)
def test_another_number_of_choices_is_one(written):
    assert choices_of(peek(b'{"model":"m","n":%b}' % written.encode())) == 1


@pytest.mark.parametrize("written", ["1" + "0" * 30, "9" * 18, "2.0e20", '"99999999999999"', "-5", "1" + "0" * 400])
@pytest.mark.parametrize("more", ["", ',"x":NaN'])
def test_a_limit_that_no_engine_could_reach_is_none(written, more):
    found = peek(b'{"model":"m","n":%b,"max_tokens":%b%b}' % (written.encode(), written.encode(), more.encode()))
    assert (choices_of(found), output_limit_of(found, LIMITS)) == (1, None)


def test_the_limit_of_a_request_is_that_of_all_its_choices_and_prompts():
    assert limit_of_all(peek(b'{"model":"m","n":3,"messages":[]}'), 5) == 15
    assert limit_of_all(peek(b'{"model":"m","prompt":"a"}'), 5) == 5
    assert limit_of_all(peek(b'{"model":"m","n":3,"prompt": ["a","b"]}'), 5) == 30


def test_the_limit_of_a_request_can_be_written_down_however_much_it_asks_for():
    prompts = b",".join([b'"a"'] * 500_000)
    found = peek(b'{"model":"m","n":16384,"max_tokens":%d,"prompt":[%b]}' % (2**31, prompts))
    assert 2**62 <= limit_of_all(found, 2**31) < 2**64


@pytest.mark.parametrize(
    ("prompt", "count"),
    [("[1,2,3]", 1), ("[[1,2],[3]]", 2), (' [ "a", "b,c" ]', 2), ('"[a,b]"', 1), ("[]", 1), ("[ ]", 1), ("7", 1)],
)
def test_a_list_of_tokens_is_one_prompt_and_a_list_of_lists_or_texts_is_several(prompt, count):
    assert prompts_of(peek(b'{"model":"m","prompt":%b}' % prompt.encode())) == count


@pytest.mark.parametrize(
    ("path", "body", "limit"),
    [
        (b"/v1/chat/completions", b'"max_tokens":300,"max_completion_tokens":1', 1),
        (b"/v1/completions", b'"max_tokens":300,"max_completion_tokens":1', 300),
        (b"/v1/messages", b'"max_tokens":300,"max_completion_tokens":1,"max_output_tokens":1', 300),
        (b"/v1/responses", b'"max_output_tokens":300,"max_tokens":1', 300),
        (b"/v1/responses", b'"max_tokens":1', None),
        (b"/v1/chat/completions", b'"max_tokens":1,"n_predict":300', 300),
        (b"/v1/chat/completions", b'"max_tokens":1,"n_predict":-1', None),
    ],
)
def test_the_limit_is_the_one_that_the_engine_goes_by_on_that_path(path, body, limit):
    assert output_limit_of(peek(b'{"model":"m",%b}' % body), ENGINE_PATHS[path].limit_fields) == limit


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
    assert wants_stream(peek(body))
    assert json.loads(with_fields(body, {"model": "other"}))["model"] == "other"


def test_half_a_surrogate_pair_is_read_as_text_that_can_be_written_down():
    found = peek(b'{"model":"\\ud800","user":"a\\udfff"}')
    assert (found.model, end_user_of(found)) == ("?", "a?")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"model":"m","x":%b%b}' % (b"[" * 50_000, b"]" * 50_000)])
def test_a_body_that_is_nested_too_deeply_is_refused_with_400(body):
    with pytest.raises(GatewayError) as refusal:
        peek(body)
    assert (refusal.value.status, refusal.value.code) == (400, "invalid_json")


def test_another_model_leaves_every_other_byte_of_the_values_alone():
    body = b'{"a":1.50,"model":"x","s":"\\u00e9","n":[1, 2],"big":12345678901234567890123}'
    changed = with_fields(body, {"model": "y"})
    assert changed == b'{"a":1.50,"model":"y","s":"\\u00e9","n":[1, 2],"big":12345678901234567890123}'


def test_a_field_is_added_without_touching_the_rest():
    assert with_fields(b'{"model":"m", "stream": true }\n', {"x": 1}) == b'{"model":"m", "stream": true ,"x":1}'


def test_a_name_that_stands_in_a_text_is_no_field():
    body = b'{"model":"m","prompt":"\\"x\\" "x""}'.replace(b'"x""', b'x"')
    assert json.loads(with_fields(body, {"x": 1}))["x"] == 1


def test_usage_of_a_whole_answer_is_read():
    usage = read_answer(b'{"usage":{"prompt_tokens":5,"completion_tokens":null,"prompt_tokens_details":null}}').usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (5, None, 0)


@pytest.mark.parametrize("answer", [b"", b"<html>", b'{"usage":null}', b'{"usage":"none"}', b"{}"])
def test_an_answer_without_usage_reads_as_unknown(answer):
    assert read_answer(answer).usage is None


def test_the_end_user_is_the_safety_identifier_before_the_user():
    assert end_user_of(peek(b'{"model":"m","user":"u","safety_identifier":"s"}')) == "s"
    assert end_user_of(peek(b'{"model":"m","user":"u"}')) == "u"
    assert end_user_of(peek(b'{"model":"m","user":7}')) == ""


def test_the_engines_own_ttft_of_a_whole_answer_is_read():
    answer = read_answer(b'{"metrics":{"time_to_first_token_ms":12.5,"generation_time_ms":7}}')
    assert answer.metrics is not None
    assert answer.metrics.time_to_first_token_ms == 12.5


@pytest.mark.parametrize(
    "answer",
    [
        b'{"id":"x","model":"OLD","choices":[]}',
        b'{ "model" :\n"OLD" , "model":"OLD"}',
        b'{"metadata":{"model":"kept"},"model":"OLD"}',
        b'{"text":"\\"model\\":\\"kept\\"{[","model":"OLD","x":[{"model":"kept"}]}',
        b'{"model":"OLD","a":NaN,"b":1e400}',
        b'{"model":null}',
        b'[{"model":"kept"}]',
        b"",
        b"model",
        b'{"model":"OLD',
    ],
)
def test_the_models_name_changes_where_it_stands_and_nothing_else_does(answer):
    name = "public/é"
    whole_name = b'"OLD"' in answer
    expected = answer.replace(b'"OLD"', b'"public/\xc3\xa9"') if whole_name else answer
    assert with_model(answer, name) == expected


def test_a_body_in_another_encoding_is_written_anew():
    for codec in ("utf-16", "utf-16-le", "utf-8-sig"):
        assert json.loads(with_fields('{"model":"é"}'.encode(codec), {"x": 1})) == {"model": "é", "x": 1}
