import pytest

from workers.gateway.http.heads import RequestHead, answer_head, head_bytes

pytestmark = pytest.mark.unit

FIRST = b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-A: 1\r\n\r\nhello"


def again(body: bytes, length: bytes | None = None) -> bytes:
    return FIRST.replace(b"Length: 5", b"Length: " + (length or b"%d" % len(body)))[:-5] + body


@pytest.mark.parametrize("body", [b"world", b"a longer body than before", b"", b"\r\n\r\n"])
def test_the_same_head_is_recognised_whatever_the_length_of_the_body(body):
    assert head_bytes(FIRST).body_of(again(body)) == body


@pytest.mark.parametrize(
    "message",
    [
        again(b"short", b"6"),  # not whole
        again(b"short", b"4"),  # and something after it
        again(b"short", b"+5"),
        again(b"short", b" 5"),
        again(b"short", b"5 "),
        again(b"short", b"5, 5"),
        again(b"short", b"5\r\nContent-Length: 0"),
        again(b"short", b"5\r\nTransfer-Encoding: chunked"),
        again(b"short", b"0000000005"),
        again(b"short", b"05"),  # of two servers one may read it in base eight
        again(b"", b"00"),
        again(b"short").replace(b"X-A: 1", b"X-A: 2"),
        again(b"short").replace(b"POST", b"post"),
        FIRST[:30],
        b"",
    ],
)
def test_anything_else_is_left_to_the_parser(message):
    assert head_bytes(FIRST).body_of(message) is None


@pytest.mark.parametrize(
    "message",
    [
        FIRST[:-1],
        FIRST + b"P",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nX: a\r\n Content-Length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\nX-Content-Length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\nX: %b\r\nContent-Length: 0\r\n\r\n" % (b"a" * 5000),
    ],
)
def test_only_a_whole_message_with_a_length_is_remembered(message):
    assert head_bytes(message) is None


def test_an_engine_does_not_see_the_key_nor_what_speaks_of_the_connection_nor_what_proves_a_gateway_to_another():
    headers = [(b"authorization", b"Bearer k"), (b"connection", b"close"), (b"traceparent", b"00"), (b"x-a", b"1")]
    headers.append((b"x-tokenyard-peer", b"1 f"))
    head = RequestHead(b"POST", b"/v1/x?q=1", headers, is_http_10=False, keeps_alive=True)
    assert head.lines_upstream == b"x-a: 1\r\n"
    assert (head.path, head.query) == (b"/v1/x", b"q=1")


def test_the_first_of_two_headers_of_one_name_counts():
    head = RequestHead(b"GET", b"/", [(b"x-a", b"1"), (b"x-a", b"2")], is_http_10=False, keeps_alive=True)
    assert head.first_by_name[b"x-a"] == b"1"


def test_a_client_does_not_see_the_framing_of_the_engine():
    headers = [(b"content-type", b"text/event-stream"), (b"transfer-encoding", b"chunked"), (b"server", b"uvicorn")]
    head = answer_head(200, headers)
    assert head.lines_downstream == b"content-type: text/event-stream\r\nserver: uvicorn\r\n"
    assert head.is_event_stream
    assert head.has_length


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([(b"retry-after", b"7")], 7.0),
        ([(b"retry-after", b"Sun, 29 Nov 2026 20:00:30 GMT"), (b"date", b"Sun, 29 Nov 2026 20:00:00 GMT")], 30.0),
        ([(b"retry-after", b"Sun, 29 Nov 2026 20:00:00 GMT"), (b"date", b"Sun, 29 Nov 2026 20:00:30 GMT")], 0.0),
        ([(b"retry-after", b"Sun, 29 Nov 2026 20:00:00 GMT")], None),
        ([(b"retry-after", b"soon")], None),
        ([(b"retry-after", b"\xff")], None),
        ([(b"retry-after", b"9" * 400)], 999_999_999.0),
        ([], None),
    ],
)
def test_what_an_engine_asks_for_that_takes_nothing_is_read_in_seconds(headers, seconds):
    assert answer_head(503, headers).retry_after_s == answer_head(429, headers).retry_after_s == seconds


def test_an_answer_asks_for_no_pause_whatever_its_headers():
    head = answer_head(200, [(b"retry-after", b"7")])
    assert (head.retry_after_s, head.turns_away) == (None, False)
