import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.vllm_samples import load_sample
from workers.gateway import errors
from workers.gateway.apis.anthropic import Anthropic

pytestmark = pytest.mark.unit

STREAM = load_sample("anthropic_messages_stream").response.body
API = Anthropic()


def run(stream, *chunks):
    return b"".join(stream.feed(chunk) for chunk in chunks) + stream.finish()


def test_usage_of_a_whole_message_is_read():
    usage = API.read_answer(load_sample("anthropic_messages").response.body).usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (34, 8, 0)


def test_input_includes_what_the_cache_had_and_took():
    body = (
        b'{"usage":{"input_tokens":5,"output_tokens":2,"cache_creation_input_tokens":16,"cache_read_input_tokens":32}}'
    )
    usage = API.read_answer(body).usage
    assert (usage.prompt_tokens, usage.cached_tokens) == (5 + 16 + 32, 32)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"usage":{"input_tokens":"many"}}', b'{"usage":null}'])
def test_an_answer_that_is_none_tells_nothing(body):
    assert API.read_answer(body).usage is None


def test_a_stream_passes_byte_for_byte_and_its_usage_is_read():
    stream = API.open_stream(None)
    assert run(stream, STREAM) == STREAM
    assert (stream.usage.prompt_tokens, stream.usage.completion_tokens) == (34, 8)
    assert not stream.has_error


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_it_does_not_matter_where_the_reads_are_cut(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    stream = API.open_stream(("smollm2", "public"))
    whole = API.open_stream(("smollm2", "public"))
    assert run(stream, *[STREAM[a:b] for a, b in itertools.pairwise(edges)]) == run(whole, STREAM)
    assert stream.usage == whole.usage


def test_the_prompt_is_known_before_the_first_token():
    stream = API.open_stream(None)
    stream.feed(STREAM[: STREAM.index(b"event: content_block_start")])
    assert (stream.usage, stream.input_tokens, stream.has_first_token) == (None, 34, False)


def test_a_stream_cut_short_is_counted_by_its_events():
    stream = API.open_stream(None)
    stream.feed(STREAM[: STREAM.index(b"event: content_block_stop")])
    assert (stream.usage, stream.input_tokens, stream.events_with_output) == (None, 34, 8)


def test_the_prompt_counts_as_it_began_where_the_end_is_silent_of_it():
    stream = API.open_stream(None)
    stream.feed(STREAM[: STREAM.index(b"event: content_block_start")])
    stream.feed(b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":3}}\n\n')
    assert (stream.usage.prompt_tokens, stream.usage.completion_tokens) == (34, 3)


def test_the_model_gets_its_public_name_and_nothing_else_changes():
    stream = API.open_stream(("smollm2", 'pub"lic'))
    assert run(stream, STREAM) == STREAM.replace(b'"model":"smollm2"', b'"model":"pub\\"lic"')


def test_an_error_inside_a_stream_is_noticed_and_passes():
    stream = API.open_stream(None)
    event = b'event: error\ndata: {"type":"error","error":{"type":"internal_error","message":"x"}}\n\n'
    assert run(stream, event) == event
    assert stream.has_error


def test_half_an_event_is_dropped_when_the_engine_breaks_off():
    stream = API.open_stream(None)
    assert stream.feed(b"event: ping\ndata: {}\n\nevent: content") == b"event: ping\ndata: {}\n\n"
    assert stream.finish_whole_events() == b""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.bad_request("invalid_json", "No."), "invalid_request_error"),
        (errors.key_invalid(), "authentication_error"),
        (errors.GatewayError(402, "budget_exhausted", "No."), "billing_error"),
        (errors.path_not_in_scope("/v1/messages"), "permission_error"),
        (errors.model_not_found("m"), "not_found_error"),
        (errors.queue_full(3), "rate_limit_error"),
        (errors.no_endpoint(3), "overloaded_error"),
        (errors.engine_timed_out(), "timeout_error"),
        (errors.engine_died(), "api_error"),
        (errors.internal(), "api_error"),
    ],
)
def test_our_errors_have_anthropics_shape_and_our_code_in_a_header(error, kind):
    body = json.loads(API.error_body(error))
    assert body == {"type": "error", "error": {"type": kind, "message": error.message}}
    assert dict(API.error_headers(error))[b"x-error-code"] == error.code.encode()


def test_an_error_in_a_stream_is_an_event_of_its_own():
    event = API.error_event(errors.engine_died(), None)
    assert event.startswith(b'event: error\ndata: {"type":"error",')
    assert event.endswith(b"}\n\n")
