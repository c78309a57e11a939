import json

import pytest

from workers.contracts.endpoints import Endpoint
from workers.gateway.events.dialects import dialect_of
from workers.gateway.payload.bodies import peek

pytestmark = pytest.mark.unit


def dialect(engine="vllm", *, continuous=True):
    return dialect_of(
        Endpoint(endpoint_id="e", version_id="v", base_url="", engine=engine, reports_continuous_usage=continuous)
    )


def prepared(body, **which):
    return dialect(**which).prepare(body, peek(body))


def test_vllm_is_asked_for_usage_as_it_goes():
    body = b'{"model":"m","stream":true}'
    assert prepared(body) == (
        b'{"model":"m","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}'
    )
    assert prepared(body, continuous=False) == b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}'


def test_usage_is_added_to_the_options_that_are_there():
    body = b'{"model":"m","stream":true,"stream_options":{"include_usage":false,"x":1}}'
    options = json.loads(prepared(body))["stream_options"]
    assert options == {"include_usage": True, "continuous_usage_stats": True, "x": 1}


@pytest.mark.parametrize("text", ["null", "{}"])
def test_empty_options_are_filled(text):
    body = b'{"model":"m","stream":true,"stream_options":%b}' % text.encode()
    assert json.loads(prepared(body, continuous=False))["stream_options"] == {"include_usage": True}


def test_a_request_that_asks_for_all_of_it_goes_as_it_came():
    body = b'{"model":"m", "stream_options":{"include_usage":true,"continuous_usage_stats":true}}'
    assert prepared(body) == body


@pytest.mark.parametrize("options", [b'"all"', b'{"include_usage":"perhaps"}', b'{"continuous_usage_stats":{"a":1}}'])
def test_options_of_a_wrong_type_are_left_for_the_engine_to_refuse(options):
    body = b'{"model":"m","stream":true,"stream_options":%b}' % options
    assert prepared(body) == body


def test_llamacpp_is_asked_for_timings_unless_the_client_has_a_say():
    assert prepared(b'{"model":"m"}', engine="llamacpp") == b'{"model":"m","timings_per_token":true}'
    body = b'{"model":"m","timings_per_token":false}'
    assert prepared(body, engine="llamacpp") == body


@pytest.mark.parametrize(
    ("options", "hides_event", "hides_counts"),
    [
        (b"null", True, True),
        (b'{"include_usage":true}', False, True),
        (b'{"include_usage":"yes"}', False, True),
        (b'{"include_usage":"false"}', True, True),
        (b'{"continuous_usage_stats":true}', True, True),
        (b'{"include_usage":true,"continuous_usage_stats":true}', False, False),
    ],
)
def test_only_what_the_client_did_not_ask_for_is_hidden(options, hides_event, hides_counts):
    found = peek(b'{"model":"m","stream_options":%b}' % options)
    assert dialect().hides_usage_event(found) is hides_event
    assert dialect().hides_counts(found) is hides_counts


ASKED = b'{"include_usage": true}'
WANTED = {"include_usage": True, "continuous_usage_stats": True}


def test_only_the_options_change_where_they_stand_once():
    body = b'{ "model":"m",\n "stream": true, "stream_options" : %b, "x": [ 1 ] }' % ASKED
    expected = body.replace(ASKED, b'{"include_usage":true,"continuous_usage_stats":true}')
    assert prepared(body) == expected


@pytest.mark.parametrize(
    "others",
    [
        b'"metadata": {"stream_options": {"include_usage": true}}',
        b'"metadata": {"stream_options": {"include_usage": false}}',
        b'"messages": [{"role": "user", "content": "\\"stream_options\\": {\\"include_usage\\": true}"}]',
        b'"temperature": NaN',
    ],
)
def test_the_request_s_own_options_change_and_nothing_that_looks_like_them(others):
    body = b'{"model":"m", "stream": true, %b, "stream_options": %b}' % (others, ASKED)
    sent = prepared(body)
    assert json.loads(sent)["stream_options"] == WANTED
    changed = json.loads(sent) | {"stream_options": json.loads(ASKED)}
    assert repr(changed) == repr(json.loads(body))
