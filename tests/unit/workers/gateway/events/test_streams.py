"""What the filter lets out equals what the recorded engines sent to a client that did not ask for usage."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.vllm_samples import load_sample
from workers.contracts.endpoints import Endpoint
from workers.gateway.events.dialects import dialect_of
from workers.gateway.events.streams import StreamFilter

VLLM = dialect_of(Endpoint(endpoint_id="e", version_id="v", base_url=""))
LLAMACPP = dialect_of(Endpoint(endpoint_id="e", version_id="v", base_url="", engine="llamacpp"))

pytestmark = pytest.mark.unit


def hiding(**changes) -> StreamFilter:
    return StreamFilter(VLLM, **{"hide_usage": True, "hide_counts": True} | changes)


def asked() -> StreamFilter:
    return StreamFilter(VLLM, hide_usage=False, hide_counts=True)


def llamacpp(**changes) -> StreamFilter:
    return StreamFilter(LLAMACPP, **{"hide_usage": False, "hide_counts": True} | changes)


def run(stream: StreamFilter, *chunks: bytes) -> bytes:
    return b"".join(stream.feed(chunk) for chunk in chunks) + stream.finish()


def without_identity(body: bytes) -> bytes:
    return re.sub(rb'"id":"[^"]+"|"created":\d+', b"", body)


def test_a_client_that_did_not_ask_for_usage_sees_what_vllm_alone_would_send():
    with_usage = load_sample("chat_stream_continuous_usage").response.body
    without = load_sample("chat_stream_nousage").response.body
    assert without_identity(run(hiding(), with_usage)) == without_identity(without)


def test_a_client_that_asked_for_usage_sees_it_without_the_running_counts():
    body = run(asked(), load_sample("chat_stream_continuous_usage").response.body)
    assert body.count(b'"usage":') == 1
    assert b'"choices":[],"usage":{"prompt_tokens":34,"total_tokens":38,"completion_tokens":4,' in body


def test_a_stream_without_running_counts_passes_byte_for_byte_when_usage_was_asked_for():
    body = load_sample("chat_stream_usage").response.body
    assert run(asked(), body) == body


@pytest.mark.parametrize(
    ("recording", "tokens_in", "tokens_out", "cached"),
    [
        ("chat_stream_usage", 34, 12, 0),
        ("chat_stream_continuous_usage", 34, 4, 0),
        ("completions_n2", 6, 16, 0),
    ],
)
def test_usage_is_read_as_the_engine_reported_it(recording, tokens_in, tokens_out, cached):
    stream = hiding()
    run(stream, load_sample(recording).response.body)
    assert stream.usage is not None
    assert (stream.usage.prompt_tokens, stream.usage.completion_tokens) == (tokens_in, tokens_out)
    assert stream.usage.cached_tokens == cached


def test_a_stream_cut_short_still_tells_how_many_tokens_came():
    stream = hiding()
    stream.feed(b"".join(load_sample("chat_stream_continuous_usage").response.chunks[:3]))
    assert stream.usage is not None
    assert (stream.usage.prompt_tokens, stream.usage.completion_tokens) == (34, 2)


def test_a_stream_cut_short_without_running_counts_is_counted_by_its_events():
    stream = hiding()
    stream.feed(b"".join(load_sample("chat_stream_usage").response.chunks[:6]))
    assert stream.usage is None
    assert stream.events_with_output == 5


@given(cuts=st.lists(st.integers(0, 2183), max_size=12))
def test_it_does_not_matter_where_the_reads_are_cut(cuts):
    body = load_sample("chat_stream_continuous_usage").response.body
    edges = [0, *sorted(cuts), len(body)]
    chunks = [body[start:end] for start, end in itertools.pairwise(edges)]
    assert run(hiding(), *chunks) == run(hiding(), body)


def test_unicode_split_over_reads_comes_out_whole():
    body = load_sample("chat_unicode_stream").response.body
    assert run(asked(), *[body[i : i + 1] for i in range(len(body))]) == body


def test_an_error_inside_a_stream_passes_and_is_noticed():
    stream = hiding()
    body = load_sample("enginecore_kill9_stream").response.body
    assert run(stream, body) == body
    assert stream.has_error


def test_text_that_looks_like_usage_is_left_alone():
    content = rb'",\"usage\":{\"a\":1}"'
    event = b'data: {"choices":[{"index":0,"delta":{"content":%b},"finish_reason":null}]}\n\n' % content
    assert run(hiding(), event) == event


def test_comments_and_named_events_pass():
    body = b': keep-alive\n\nevent: message_start\ndata: {"type":"message_start"}\n\n'
    assert run(hiding(), body) == body


def test_the_model_gets_its_public_name_in_every_event():
    stream = hiding(rename=("smollm2", 'pub"lic'))
    body = run(stream, load_sample("chat_stream_continuous_usage").response.body)
    assert body.count(b'"model":"pub\\"lic"') == 5
    assert b"smollm2" not in body


LLAMACPP_EVENT = (
    b'data: {"choices":[{"finish_reason":%b,"index":0,"delta":{%b}}],"object":"chat.completion.chunk",'
    b'"timings":{"cache_n":36,"prompt_n":1,"prompt_ms":6.013,"predicted_n":%d,"predicted_ms":9.4}}\n\n'
)


def test_llamacpp_counts_along_and_only_its_last_count_is_shown():
    stream = llamacpp()
    first = stream.feed(LLAMACPP_EVENT % (b"null", b'"content":"L"', 1))
    last = stream.feed(LLAMACPP_EVENT % (b'"length"', b"", 2))
    assert b"timings" not in first
    assert last == LLAMACPP_EVENT % (b'"length"', b"", 2)
    assert stream.usage is not None
    assert (stream.usage.prompt_tokens, stream.usage.cached_tokens, stream.usage.completion_tokens) == (37, 36, 2)


def test_llamacpp_passes_byte_for_byte_when_nothing_was_added():
    body = load_sample("llamacpp_chat_stream").response.body
    stream = llamacpp()
    assert run(stream, body) == body
    assert stream.usage is not None
    assert (stream.usage.prompt_tokens, stream.usage.cached_tokens, stream.usage.completion_tokens) == (34, 33, 6)


def test_llamacpp_counts_every_choice_of_a_stream_though_its_usage_speaks_of_one():
    stream = llamacpp()
    for index in (0, 1):
        event = LLAMACPP_EVENT % (b'"length"', b"", 8)
        stream.feed(event.replace(b'"index":0', b'"index":%d' % index))
    stream.feed(b'data: {"choices":[],"usage":{"completion_tokens":8,"prompt_tokens":37}}\n\n')
    assert stream.usage is not None
    assert stream.usage.completion_tokens == 16


CHOICES = (
    b'data: {"choices":[{"index":%d,"text":" a","finish_reason":null}],'
    b'"usage":{"prompt_tokens":%d,"total_tokens":9,"completion_tokens":%d}}\n\n'
)


def test_a_stream_of_several_choices_cut_short_adds_them_up():
    stream = hiding(choices_per_prompt=2)
    for index, tokens_in, tokens_out in ((0, 5, 1), (1, 5, 1), (0, 5, 2), (2, 7, 1)):
        stream.feed(CHOICES % (index, tokens_in, tokens_out))
    assert stream.usage is not None
    assert (stream.usage.prompt_tokens, stream.usage.completion_tokens) == (5 + 7, 2 + 1 + 1)


def test_every_finish_event_gets_the_engines_fingerprint_once_that_is_known():
    finish = b'data: {"choices":[{"index":%d,"delta":{},"finish_reason":"stop"}]}\n\n'
    stream = hiding(fingerprint=b'"vllm-1"')
    first = stream.feed(finish % 0)
    second = stream.feed(finish % 1)
    assert first.endswith(b'"finish_reason":"stop"}],"system_fingerprint":"vllm-1"}\n\n')
    assert second.endswith(b'"finish_reason":"stop"}],"system_fingerprint":"vllm-1"}\n\n')


def test_the_fingerprint_is_learned_from_the_usage_event():
    stream = asked()
    run(stream, load_sample("chat_stream_usage").response.body)
    assert stream.fingerprint == b'"vllm-0.32.0-3dfc2790"'


def test_an_engine_without_fingerprints_gets_none_added():
    finish = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    assert run(hiding(fingerprint=b""), finish) == finish


def test_half_an_event_is_dropped_when_the_engine_breaks_off():
    stream = hiding()
    stream.feed(load_sample("chat_stream_nousage").response.chunks[0] + b'data: {"id":"half')
    assert stream.finish_whole_events() == b""


def test_a_finish_event_held_for_the_fingerprint_is_not_lost_when_no_usage_follows():
    events = load_sample("chat_stream_usage").response.chunks
    finish = events[-3]
    assert b'"finish_reason":"length"' in finish
    assert run(hiding(), finish, events[-1]) == finish + events[-1]


def test_while_a_finish_event_waits_for_the_fingerprint_nothing_overtakes_it():
    text = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
    finish = b'data: {"choices":[{"index":1,"delta":{"content":""},"finish_reason":"stop"}]}\n\n'
    marked = hiding(choices_per_prompt=2, text_mark=b'"delta":{"content":"')
    assert run(marked, text * 2, finish, text * 2) == text * 2 + finish + text * 2


def test_an_endless_event_is_noticed():
    stream = hiding()
    for _ in range(9):
        stream.feed(b"x" * 1024 * 1024)
    assert stream.is_too_long


@pytest.mark.parametrize("recording", ["chat_stream_usage", "chat_stream_continuous_usage", "completions_n2"])
@pytest.mark.parametrize("hides", list(itertools.product((False, True), repeat=2)))
@pytest.mark.parametrize("fingerprint", [None, b"", b'"fp"'])
def test_many_events_in_one_read_pass_as_they_would_one_by_one(recording, hides, fingerprint):
    options = {"hide_usage": hides[0], "hide_counts": hides[1], "fingerprint": fingerprint}
    body = load_sample(recording).response.body
    together, apart = StreamFilter(VLLM, **options), StreamFilter(VLLM, **options)
    events = [event + b"\n\n" for event in body.split(b"\n\n")[:-1]]
    assert run(together, body) == run(apart, *events)
    assert together.usage == apart.usage
    assert together.events_with_output == apart.events_with_output
    assert together.fingerprint == apart.fingerprint


def test_events_before_the_last_ones_are_counted_when_a_stream_breaks_off_in_a_burst():
    chunks = load_sample("chat_stream_continuous_usage").response.chunks
    together, apart = hiding(), hiding()
    together.feed(b"".join(chunks[:4]))
    for chunk in chunks[:4]:
        apart.feed(chunk)
    assert together.usage == apart.usage
    assert together.events_with_output == apart.events_with_output


def test_a_third_line_end_in_a_row_begins_the_next_event():
    assert run(hiding(), b": a\n\n\n", b"\n: b\n\n") == b": a\n\n\n\n: b\n\n"
    assert run(hiding(), b": a\n\n\n") == b": a\n\n\n"
