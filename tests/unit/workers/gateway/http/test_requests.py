"""What is a request and what is not, byte by byte; httptools, which is llhttp, is asked for its opinion."""

from itertools import pairwise

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.gateway.http.chunked import MAX_LINE_BYTES, MAX_TRAILERS, ChunkedBody, ChunkError
from workers.gateway.http.request_heads import MAX_URL_BYTES, RefusedRequestError
from workers.gateway.http.requests import MAX_BODY_BYTES, MAX_HEAD_BYTES, RequestReader

pytestmark = pytest.mark.unit

POST = b"POST /v1/x HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SOUND = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    POST + b"Content-Length: 5\r\n\r\nhello",
    CHUNKED + b"5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n",
    CHUNKED + b'05;a;b=c;d="e\\"; \xc3\xbc\t"\r\nhello\r\n0000A\r\n0123456789\r\n000;z\r\nX: y\r\nX-Sum:\r\n\r\n',
    b"\r\n\r\nGET /models?x=1 HTTP/1.1\r\nHost: a:80\r\nX-Y: \t a b \xc3\xbc \r\n\r\n",
    b"GET http://a/v1/models?q HTTP/1.1\r\nHost: a\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    POST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}",
    POST + b"Content-Length: 0\r\n\r\n" + POST + b"Content-Length: 1\r\n\r\nx",
]
SMUGGLED = {
    "both lengths": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both lengths, other order": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "two equal lengths": POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a list of lengths": POST + b"Content-Length: 5, 5\r\n\r\nhello",
    "a signed length": POST + b"Content-Length: +5\r\n\r\nhello",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a hexadecimal length": POST + b"Content-Length: 0x5\r\n\r\nhello",
    "leading zeros": POST + b"Content-Length: 005\r\n\r\nhello",
    "an empty length": POST + b"Content-Length:\r\n\r\n",
    "a length with a space": POST + b"Content-Length: 1 0\r\n\r\nhello",
    "a length of another script": POST + "Content-Length: \u0665\r\n\r\nhello".encode(),
    "two codings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "two coding headers": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "another coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding with a tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a coding in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded line": POST + b"X: a\r\n b\r\n\r\n",
    "a folded coding": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"Content-Length : 5\r\n\r\nhello",
    "a line without a colon": POST + b"nonsense\r\n\r\n",
    "an empty name": POST + b": x\r\n\r\n",
    "bare line feeds": b"POST / HTTP/1.1\nHost: a\n\n",
    "one bare line feed": POST + b"X: a\nContent-Length: 5\r\n\r\nhello",
    "a bare carriage return": POST + b"X: a\rContent-Length: 5\r\n\r\n",
    "a bare line feed at the end": POST + b"X: a\r\n\n",
    "a NUL": POST + b"X: a\x00b\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": POST + b"Host: b\r\n\r\n",
    "a host with a path": b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "two spaces": b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a tab": b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a leading space": b" GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "no version": b"GET /\r\nHost: a\r\n\r\n",
    "a fragment": b"GET /#a HTTP/1.1\r\nHost: a\r\n\r\n",
    "credentials in the target": b"GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "another scheme": b"GET file:///etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
    "a tunnel": b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "an extension without a name": CHUNKED + b"5;\r\nhello\r\n0\r\n\r\n",
    "an extension without a value": CHUNKED + b"5;a=\r\nhello\r\n0\r\n\r\n",
    "an extension behind a space": CHUNKED + b"5 ;a=b\r\nhello\r\n0\r\n\r\n",
    "an extension that ends in a line feed": CHUNKED + b"5;a=b\nhello\r\n0\r\n\r\n",
    "an extension with a carriage return": CHUNKED + b"5;a=\rb\r\nhello\r\n0\r\n\r\n",
    "an extension with a NUL": CHUNKED + b"5;a=\x00\r\nhello\r\n0\r\n\r\n",
    "an extension that is not unquoted": CHUNKED + b'5;a="b\r\nhello\r\n0\r\n\r\n',
    "an extension that quotes a line feed": CHUNKED + b'5;a="\n"\r\nhello\r\n0\r\n\r\n',
    "an extension that quotes the end of a line": CHUNKED + b'5;a="\r\n"\r\nhello\r\n0\r\n\r\n',
    "an endless extension": CHUNKED + b"5;a=" + b"b" * MAX_LINE_BYTES + b"\r\nhello\r\n0\r\n\r\n",
    "too much of extensions": CHUNKED + (b"1;" + b"a" * 1000 + b"\r\nx\r\n") * 17 + b"0\r\n\r\n",
    "too many zeros": CHUNKED + b"0" * 25 + b"5\r\nhello\r\n0\r\n\r\n",
    "a chunk size with a prefix": CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    "a chunk size with a sign": CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n",
    "a chunk size with a space": CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n",
    "no chunk size": CHUNKED + b"\r\nhello\r\n0\r\n\r\n",
    "an enormous chunk size": CHUNKED + b"FFFFFFFFFFFFFFFF5\r\nhello\r\n0\r\n\r\n",
    "a chunk size that ends in a line feed": CHUNKED + b"5\nhello\r\n0\r\n\r\n",
    "a chunk longer than its size": CHUNKED + b"5\r\nhello!\r\n0\r\n\r\n",
    "a chunk that ends in a line feed": CHUNKED + b"5\r\nhello\n0\r\n\r\n",
    "a trailer that is a length": CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n",
    "a trailer that is a coding": CHUNKED + b"0\r\ntransfer-encoding: chunked\r\n\r\n",
    "a trailer that is a host": CHUNKED + b"0\r\nX: y\r\nHost: b\r\n\r\n",
    "a trailer that is a key": CHUNKED + b"0\r\nAuthorization: Bearer x\r\n\r\n",
    "a folded trailer": CHUNKED + b"0\r\nX: y\r\n z\r\n\r\n",
    "a trailer with a space before the colon": CHUNKED + b"0\r\nX : y\r\n\r\n",
    "a trailer without a colon": CHUNKED + b"0\r\nX\r\n\r\n",
    "a trailer that ends in a line feed": CHUNKED + b"0\r\nX: y\n\r\n",
    "a trailer with a carriage return": CHUNKED + b"0\r\nX: y\rz\r\n\r\n",
    "a request where a trailer would be": CHUNKED + b"0\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "an endless trailer": CHUNKED + b"0\r\nX: " + b"y" * MAX_LINE_BYTES + b"\r\n\r\n",
    "too many trailers": CHUNKED + b"0\r\n" + b"X: y\r\n" * (MAX_TRAILERS + 1) + b"\r\n",
}


class Heard:
    """What a reader makes of bytes that come in pieces: requests, then perhaps a refusal."""

    def __init__(self, pieces):
        self.requests = []
        self.refusal = None
        reader = RequestReader(self.requests.append, lambda: None)
        try:
            for number, piece in enumerate(pieces):
                reader.feed(piece, float(number))
        except RefusedRequestError as error:
            self.refusal = (error.status, error.code)

    def summary(self):
        return [
            (request.method, request.path, request.head.query, request.head.headers, request.body, request.keeps_alive)
            for request in self.requests
        ], self.refusal


class Oracle:
    """The same of httptools."""

    def __init__(self, content):
        self.bodies = []
        self.urls = []
        self.is_sound = True
        self._body = b""
        try:
            httptools.HttpRequestParser(self).feed_data(content)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.is_sound = False

    def on_url(self, url):
        self.urls.append(url)

    def on_message_begin(self):
        self._body = b""

    def on_body(self, body):
        self._body += body

    def on_message_complete(self):
        self.bodies.append(self._body)


def pieces_of(content, cuts):
    edges = sorted({0, len(content), *[cut % (len(content) + 1) for cut in cuts]})
    return [content[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize("content", SOUND)
def test_a_sound_request_is_heard_whatever_pieces_it_comes_in(content):
    whole = Heard([content]).summary()
    assert whole[0]
    assert whole[1] is None
    assert Heard([bytes([byte]) for byte in content]).summary() == whole


@pytest.mark.parametrize("content", SMUGGLED.values(), ids=SMUGGLED)
def test_what_two_parsers_could_read_differently_is_refused_whatever_pieces_it_comes_in(content):
    whole = Heard([content]).summary()
    assert whole[1] == (400, b"invalid_http")
    assert whole[0] == []
    assert Heard([bytes([byte]) for byte in content]).summary() == whole


def test_pipelined_requests_come_in_order_and_what_follows_a_refused_one_is_not_heard():
    good = POST + b"Content-Length: 1\r\n\r\n"
    heard = Heard([good + b"1" + good + b"2" + SMUGGLED["two lengths"] + good + b"3"])
    assert [request.body for request in heard.requests] == [b"1", b"2"]
    assert heard.refusal == (400, b"invalid_http")


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, "url_too_long"),
        (b"GET /" + b"a" * 9000, 414, "url_too_long"),
        (POST + b"X: " + b"a" * 70_000 + b"\r\n\r\n", 431, "headers_too_large"),
        (POST + b"X: a\r\n" * 200 + b"\r\n", 431, "headers_too_large"),
        (POST + b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1), 413, "body_too_large"),
        (CHUNKED + b"%x\r\n" % (MAX_BODY_BYTES + 1), 413, "body_too_large"),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, "http_version_unsupported"),
        (POST + b"Expect: a miracle\r\n\r\n", 417, "expectation_failed"),
    ],
)
def test_what_is_too_large_or_not_spoken_here_is_refused_by_name(content, status, code):
    assert Heard([content]).refusal == (status, code.encode())
    assert Heard(pieces_of(content, range(0, len(content), 997))).refusal == (status, code.encode())


@pytest.mark.parametrize(("room", "status"), [(0, None), (-1, None), (1, 431)])
def test_a_head_may_have_exactly_64_kib(room, status):
    content = POST + b"X: " + b"a" * (MAX_HEAD_BYTES + room - len(POST) - 7) + b"\r\n\r\n"
    assert len(content) == MAX_HEAD_BYTES + room
    for heard in (Heard([content]), Heard(pieces_of(content, range(0, len(content), 997)))):
        assert (heard.refusal and heard.refusal[0]) == status


@pytest.mark.parametrize(("room", "status"), [(0, None), (1, 414), (40, 414)])
def test_a_url_may_have_exactly_8_kib(room, status):
    content = b"DELETE /" + b"a" * (MAX_URL_BYTES - 1 + room) + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    for heard in (Heard([content]), Heard(pieces_of(content, range(0, len(content), 97)))):
        assert (heard.refusal and heard.refusal[0]) == status


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (b"/v1/chat%2Fcompletions", b"/v1/chat/completions"),
        (b"/v1/%63hat/completions?a=%2F", b"/v1/chat/completions"),
        (b"http://a/v1%2fmodels", b"/v1/models"),
        (b"/v1/models/a%252Fb", b"/v1/models/a%252Fb"),
        (b"/v1/x%0d%0aHost:%20b", b"/v1/x%0d%0aHost:%20b"),
        (b"/v1/x%3Fy%23z", b"/v1/x%3Fy%23z"),
        (b"/v1/x%20HTTP/1.1", b"/v1/x%20HTTP/1.1"),
        (b"/v1/x%00%C3%BC%zz%", b"/v1/x%00%C3%BC%zz%"),
    ],
)
def test_a_path_in_percent_signs_is_the_plain_one_unless_a_request_line_would_read_differently(written, path):
    [request] = Heard([b"GET " + written + b" HTTP/1.1\r\nHost: a\r\n\r\n"]).requests
    assert request.head.path == path
    assert request.head.line_upstream.split(b" ")[1].partition(b"?")[0] == path


def test_a_query_stays_as_it_is_written():
    [request] = Heard([b"GET /%61?b=%2F%3f?c HTTP/1.1\r\nHost: a\r\n\r\n"]).requests
    assert (request.head.path, request.head.query) == (b"/a", b"b=%2F%3f?c")


def test_a_client_is_invited_to_send_its_body_only_when_there_is_one():
    invited = []
    for body in (b"Content-Length: 2\r\n", b"", b"Transfer-Encoding: chunked\r\n"):
        reader = RequestReader(lambda _request: None, lambda: invited.append(1))
        reader.feed(POST + b"Expect: 100-continue\r\n" + body + b"\r\n", 0.0)
    assert len(invited) == 2


@pytest.mark.parametrize("expected", [b"100-continue", b"a miracle"])
def test_http_1_0_knows_no_expectations(expected):
    invited, taken = [], []
    reader = RequestReader(taken.append, lambda: invited.append(1))
    head = b"POST /v1/x HTTP/1.0\r\nExpect: " + expected + b"\r\nContent-Length: 2\r\n\r\n"
    reader.feed(head, 0.0)
    reader.feed(b"{}", 0.0)
    assert (invited, [request.body for request in taken]) == ([], [b"{}"])


@pytest.mark.parametrize(
    ("version", "option", "expected"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: close\r\n", False),
        (b"1.1", b"Connection: x, Close\r\n", False),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: Keep-Alive\r\n", True),
    ],
)
def test_a_connection_outlives_an_answer_as_its_options_say(version, option, expected):
    [request] = Heard([b"GET / HTTP/" + version + b"\r\nHost: a\r\n" + option + b"\r\n"]).requests
    assert request.keeps_alive is expected


TOKENS = st.sampled_from(
    [b"GET / HTTP/1.1\r\n", b"POST /x HTTP/1.1\r\n", b"Host: a\r\n", b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"0",
     b"5", b"a", b";", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"hello",
     b"0\r\n\r\n", b"5\r\nhello\r\n", b"\x00", b"\xff", b"X: y\r\n", b"Expect: 100-continue\r\n",
     b"Connection: close\r\n"]
)  # fmt: skip
STREAMS = st.lists(TOKENS, max_size=24).map(b"".join) | st.binary(max_size=200)
MUTATED = st.tuples(st.sampled_from(SOUND), st.integers(0, 400), st.binary(max_size=3)).map(
    lambda drawn: drawn[0][: drawn[1]] + drawn[2] + drawn[0][drawn[1] + 1 :]
)


@settings(max_examples=400, deadline=None)
@given(STREAMS | MUTATED, st.lists(st.integers(0, 500), max_size=6))
def test_fuzz_any_division_of_the_same_bytes_is_heard_alike(content, cuts):
    assert Heard(pieces_of(content, cuts)).summary() == Heard([content]).summary()


@settings(max_examples=400, deadline=None)
@given(STREAMS | MUTATED)
def test_fuzz_what_is_heard_httptools_hears_too_and_alike(content):
    heard = Heard([content])
    if heard.refusal or not heard.requests or any(b"upgrade" in dict(each.head.headers) for each in heard.requests):
        return
    oracle = Oracle(content)
    bodies = [request.body for request in heard.requests]
    assert oracle.is_sound or len(oracle.bodies) >= len(bodies)
    assert oracle.bodies[: len(bodies)] == bodies


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.binary(max_size=8), st.lists(st.integers(0, 400)))
def test_fuzz_a_chunked_body_is_put_together_and_what_follows_it_is_left(parts, rest, cuts):
    content = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    body = ChunkedBody()
    found, left = [], b""
    for piece in pieces_of(content + rest, cuts):
        pieces, over = body.feed(piece, 10_000)
        found += pieces
        left += over
    assert body.is_over
    assert b"".join(found) == b"".join(parts)
    assert left == rest


NAMES = st.text("abcXYZ019!#$%&'*+-.^_`|~", min_size=1, max_size=8).map(str.encode)
QUOTED = st.lists(st.sampled_from([b"\t", b" ", b"a", b";", b"=", b"0", b"\\\\", b'\\"', b"\\a"]), max_size=6).map(
    lambda parts: b'"' + b"".join(parts) + b'"'
)
EXTENSIONS = st.lists(
    st.builds(lambda name, value: b";" + name + value, NAMES, st.just(b"") | (NAMES | QUOTED).map(b"=".__add__)),
    max_size=3,
).map(b"".join)
ZEROS = st.integers(0, 16).map(lambda count: b"0" * count)
CHUNKS = st.builds(
    lambda zeros, content, extensions: (content, b"%b%x%b\r\n%b\r\n" % (zeros, len(content), extensions, content)),
    ZEROS,
    st.binary(min_size=1, max_size=40),
    EXTENSIONS,
)
FIELD_VALUES = st.text("ab ,;:\t=", max_size=12).map(str.encode)
TRAILERS = st.lists(
    st.builds(lambda name, value: b"X-" + name + b":" + value + b"\r\n", NAMES, FIELD_VALUES), max_size=4
)
LEGAL_BODIES = st.builds(
    lambda chunks, zeros, extensions, trailers: (
        b"".join(content for content, _ in chunks),
        b"".join(sent for _, sent in chunks) + b"0" + zeros + extensions + b"\r\n" + b"".join(trailers) + b"\r\n",
    ),
    st.lists(CHUNKS, max_size=5),
    ZEROS,
    EXTENSIONS,
    TRAILERS,
)


@settings(max_examples=400, deadline=None)
@given(LEGAL_BODIES, st.lists(st.integers(0, 600), max_size=6))
def test_fuzz_a_legal_chunked_request_has_the_body_that_httptools_finds_however_it_comes(legal, cuts):
    body, sent = legal
    content = CHUNKED + sent + SOUND[0]
    heard = Heard(pieces_of(content, cuts))
    assert heard.refusal is None
    assert [request.body for request in heard.requests] == [body, b""] == Oracle(content).bodies
    assert dict(heard.requests[0].head.headers).keys() == {b"host", b"transfer-encoding"}


@settings(max_examples=400, deadline=None)
@given(LEGAL_BODIES, st.integers(0, 600), st.binary(max_size=2), st.lists(st.integers(0, 600), max_size=6))
def test_fuzz_a_chunked_body_that_is_nearly_legal_is_heard_alike_however_it_comes(legal, at, wrong, cuts):
    content = CHUNKED + legal[1][:at] + wrong + legal[1][at + 1 :] + SOUND[0]
    heard = Heard([content])
    assert Heard(pieces_of(content, cuts)).summary() == heard.summary()
    assert Oracle(content).bodies[: len(heard.requests)] == [request.body for request in heard.requests]


def test_a_chunked_body_that_is_cut_is_not_over():
    body = ChunkedBody()
    body.feed(b"5\r\nhel", 100)
    assert not body.is_over
    with pytest.raises(ChunkError):
        body.feed(b"lo!", 100)
