"""What has been read of a connection can be told to another reader, which then stands where the first did."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.gateway.http.requests import RequestReader
from workers.gateway.http.retelling import tell_again

pytestmark = pytest.mark.unit

bodies = st.binary(max_size=60)
names = st.sampled_from([b"x-a", b"authorization", b"X-Forwarded-For", b"content-type"])
extensions = st.sampled_from([b"", b";a", b';a="b;"'])
trailers = st.sampled_from([b"", b"X-Sum: 1\r\n", b"X-Sum: 1\r\nX-Other:\r\n"])
values = st.sampled_from([b"1", b"Bearer ty-1", b"10.0.0.1, 10.0.0.2", b"a  b"])


def chunked(body, sizes, extension, trailers):
    pieces, at = [], 0
    for size in [*sizes, len(body)]:
        if piece := body[at : at + size]:
            pieces.append(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece))
        at += size
    return b"".join(pieces) + b"0%b\r\n%b\r\n" % (extension, trailers)


@st.composite
def messages(draw):
    headers = b"".join(b"%b: %b\r\n" % pair for pair in draw(st.lists(st.tuples(names, values), max_size=3)))
    version = draw(st.sampled_from([b"1.1", b"1.1", b"1.0"]))
    body = draw(bodies)
    if version == b"1.1" and draw(st.booleans()):
        framing = b"transfer-encoding: chunked\r\n"
        sizes, extension = draw(st.lists(st.integers(1, 20), max_size=4)), draw(extensions)
        content = chunked(body, sizes, extension, draw(trailers))
    else:
        framing, content = (b"content-length: %d\r\n" % len(body), body) if draw(st.booleans()) else (b"", b"")
    target = draw(st.sampled_from([b"/v1/chat/completions", b"/v1/models?limit=1", b"http://h/x?y=z"]))
    return b"POST %b HTTP/%b\r\nhost: h\r\n%b%b\r\n%b" % (target, version, headers, framing, content)


def reader_into(taken):
    return RequestReader(taken.append, lambda: None)


def seen(requests):
    return [
        (
            request.method,
            request.path,
            request.head.query,
            [header for header in request.head.headers if header[0] not in (b"content-length", b"transfer-encoding")],
            request.body,
            request.is_http_10,
            request.keeps_alive,
        )
        for request in requests
    ]


@settings(max_examples=200)
@given(st.lists(messages(), min_size=1, max_size=3), st.data())
def test_wherever_a_connection_is_cut_another_reader_goes_on_with_the_same_requests(sent, data):
    raw = b"".join(sent)
    cut = data.draw(st.integers(0, len(raw)))
    whole, before, after = [], [], []
    reader_into(whole).feed(raw, 0.0)

    first, second = reader_into(before), reader_into(after)
    first.feed(raw[:cut], 0.0)
    second.feed(b"".join(tell_again(request.head, request.body) for request in before), 0.0)
    second.feed(first.as_sent(is_invited=True), 0.0)
    second.feed(raw[cut:], 0.0)

    assert seen(after) == seen(whole)


@settings(max_examples=100)
@given(messages(), st.data())
def test_it_may_be_told_a_second_time_halfway(sent, data):
    cut = data.draw(st.integers(0, len(sent)))
    whole, once, twice = [], [], []
    reader_into(whole).feed(sent, 0.0)
    first, second = reader_into(once), reader_into(twice)
    first.feed(sent[:cut], 0.0)
    again = reader_into([])
    again.feed(first.as_sent(is_invited=True) or b"", 0.0)
    if not once:
        second.feed(again.as_sent(is_invited=True), 0.0)
        second.feed(sent[cut:], 0.0)
        assert seen(twice) == seen(whole)


def test_a_body_that_came_is_not_waited_for_again_and_one_that_waits_for_leave_still_does():
    asked, invited = [], []
    reader = RequestReader(asked.append, lambda: invited.append(True))
    reader.feed(b"POST / HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n", 0.0)
    assert b"expect" in reader.as_sent(is_invited=False)
    assert b"expect" not in reader.as_sent(is_invited=True)
    reader.feed(b"ab", 0.0)
    assert b"expect" not in tell_again(asked[0].head, asked[0].body)
    assert invited == [True]
