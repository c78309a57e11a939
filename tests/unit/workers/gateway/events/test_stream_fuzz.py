"""Streams cut anywhere, with anything in them: the quick way through a filter does what the slow one does."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.workers.gateway.http.test_requests import pieces_of
from workers.gateway.apis.anthropic import Anthropic
from workers.gateway.apis.paths import ENGINE_PATHS
from workers.gateway.apis.responses import Responses
from workers.gateway.events.dialects import VLLMDialect
from workers.gateway.events.streams import StreamFilter

pytestmark = pytest.mark.unit

MARK = ENGINE_PATHS[b"/v1/chat/completions"].text_mark
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "served"}
DIALECT = VLLMDialect(is_continuous=True)


def encoded(fields):
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"


def event(index, delta, finish, counted):
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    usage = {"prompt_tokens": 5, "total_tokens": 5 + counted, "completion_tokens": counted}
    return encoded(HEAD | {"choices": [choice]} | ({"usage": usage} if counted else {}))


TEXTS = st.text(max_size=8) | st.sampled_from(
    ['"', "\\", '\\"', '"},"logprobs":null', "\n\n", "data: {", '"finish_reason":"stop"', ',"usage":{', "é", "😀"]
)
DELTAS: st.SearchStrategy[dict[str, Any]] = (
    TEXTS.map(lambda text: {"content": text})
    | st.just({"role": "assistant", "content": ""})
    | st.just({})
    | TEXTS.map(lambda text: {"reasoning_content": text})
    | TEXTS.map(lambda text: {"content": text, "refusal": text})
)
EVENTS = (
    st.builds(event, st.integers(0, 2), DELTAS, st.sampled_from([None, None, None, "stop"]), st.integers(0, 9))
    | st.builds(lambda text: event(0, {"content": text}, None, 3), TEXTS)
    | st.sampled_from([b": a comment\n\n", b"data: [DONE]\n\n", b"\n\n", b"\n", b"event: x\ndata: 1\n\n"])
    | st.just(encoded(HEAD | {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 4}}))
    | st.just(b'data: {"error": {"message": "no", "code": 500}}\n\n')
)
# As an engine sends most: alike but for their texts, and all with a count or none.
RUNS = st.builds(
    lambda before, texts, counted, after: b"".join(
        [*before, *[event(0, {"content": text}, None, counted) for text in texts], *after]
    ),
    st.lists(EVENTS, max_size=2),
    st.lists(st.text("ab ", max_size=3), min_size=3, max_size=8) | st.lists(TEXTS, min_size=3, max_size=8),
    st.integers(0, 1),
    st.lists(EVENTS, max_size=4),
)
STREAMS = st.lists(EVENTS, max_size=12).map(b"".join) | RUNS | st.binary(max_size=120)
CUTS = st.lists(st.integers(0, 3000), max_size=6)


def filtered(content, cuts, *, mark=MARK, rename=None, **options):
    settled = {"hide_usage": True, "hide_counts": True, "fingerprint": b""} | options
    stream = StreamFilter(DIALECT, text_mark=mark, rename=rename, **settled)
    passed = b"".join([stream.feed(piece) for piece in pieces_of(content, cuts)]) + stream.finish()
    return passed, stream.usage, stream.events_with_output, stream.has_error


@settings(max_examples=250, deadline=None)
@given(STREAMS, CUTS, st.booleans(), st.booleans(), st.sampled_from([None, ("served", "shown")]))
def test_fuzz_cut_anywhere_and_with_or_without_the_quick_way_a_stream_is_the_same(content, cuts, hides, known, rename):
    options = {"hide_usage": hides, "hide_counts": hides, "fingerprint": b"" if known else None, "rename": rename}
    whole = filtered(content, [], mark=b"", **options)
    assert filtered(content, [], **options) == whole
    assert filtered(content, cuts, **options) == whole


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(TEXTS, st.integers(1, 9)), min_size=1, max_size=10), CUTS)
def test_fuzz_the_text_that_is_kept_is_the_text_that_was_sent(parts, cuts):
    content = b"".join(event(0, {"content": text}, None, counted) for text, counted in parts)
    stream = StreamFilter(DIALECT, hide_usage=True, hide_counts=True, fingerprint=b"", text_mark=MARK, keeps_text=True)
    for piece in pieces_of(content, cuts):
        stream.feed(piece)
    assert json.loads(b'"' + bytes(stream.text) + b'"') == "".join(text for text, _ in parts)
    assert stream.usage.completion_tokens == parts[-1][1]


NAMED = st.lists(
    st.sampled_from(
        [
            b'event: message_start\ndata: {"message":{"model":"a","usage":{"input_tokens":3}}}\n\n',
            b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"x"}}\n\n',
            b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":4}}\n\n',
            b'event: response.created\ndata: {"type":"response.created","response":{"model":"a"}}\n\n',
            b'event: response.completed\ndata: {"response":{"usage":{"input_tokens":3,"output_tokens":2}}}\n\n',
            b'event: error\ndata: {"type":"error"}\n\n',
            b"event: message_delta\ndata: nonsense\n\n",
            b": ping\n\n",
        ]
    ),
    max_size=8,
).map(b"".join) | st.binary(max_size=100)


@pytest.mark.parametrize("api", [Anthropic(), Responses()])
@settings(max_examples=100, deadline=None)
@given(content=NAMED, cuts=CUTS)
def test_fuzz_named_events_are_the_same_wherever_they_are_cut(api, content, cuts):
    def read(cut_at):
        stream = api.open_stream(("a", "b"))
        passed = b"".join([stream.feed(piece) for piece in pieces_of(content, cut_at)]) + stream.finish()
        return passed, stream.usage, stream.events_with_output, stream.has_error

    assert read(cuts) == read([])
