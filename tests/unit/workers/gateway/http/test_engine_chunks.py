import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.workers.gateway.http.test_requests import pieces_of
from tests.unit.workers.gateway.http.test_upstream import asked
from workers.gateway.http.engine_chunks import take_whole_chunks

pytestmark = pytest.mark.unit

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunked(piece):
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def taken(data):
    pieces: list[bytes] = []
    return take_whole_chunks(data, 0, pieces), pieces


def test_whole_chunks_are_taken_and_half_a_one_is_left():
    whole = chunked(b"a" * 300) + chunked(b"\r\n")
    assert taken(whole) == (len(whole), [b"a" * 300, b"\r\n"])
    assert taken(whole + b"5\r\nabc") == (len(whole), [b"a" * 300, b"\r\n"])


@pytest.mark.parametrize(
    "unusual",
    [
        *(b"", b"0\r\n\r\n", b"3;x=y\r\nabc\r\n", b"3\r\nabcd\r\n", b"3\nabc\r\n", b"-3\r\nabc\r\n"),
        *(b"g\r\nabc\r\n", b"3", b"3\r", b"00000003\r\nabc\r\n", b"fffffffff\r\nabc\r\n", b" 3\r\nabc\r\n"),
    ],
)
def test_what_is_unusual_is_left_to_the_parser(unusual):
    assert taken(unusual) == (0, [])


class Collector:
    """What an answer was, however it came."""

    def __init__(self):
        self.body = b""
        self.end = ""
        self.status = 0

    def answer_began(self, head):
        self.status = head.status

    def answer_received(self, pieces):
        assert pieces
        assert not self.end
        self.body += b"".join(pieces)

    def answer_ended(self, pieces):
        self.body += b"".join(pieces)
        self.end += "ended"

    def answer_failed(self, error):
        self.end += "failed"


CHUNKS = st.lists(
    st.binary(min_size=1, max_size=40) | st.sampled_from([b"\r\n", b"0\r\n\r\n", b"3\r\nabc\r\n"]), max_size=6
)
CUTS = st.lists(st.integers(0, 400), max_size=6)


@settings(max_examples=300, deadline=None)
@given(CHUNKS, CUTS, st.sampled_from([b"0\r\n\r\n", b"0\r\nx-trailer: 1\r\n\r\n", b"zz\r\n", b"0\r\n\r\nmore"]))
def test_fuzz_a_chunked_answer_is_the_same_whatever_pieces_it_comes_in(chunks, cuts, ending):
    answer = HEAD + b"".join(chunked(piece) for piece in chunks) + ending
    collector = Collector()
    connection = asked(collector)

    for piece in pieces_of(answer, cuts):
        if not collector.end:
            connection.data_received(piece)

    is_good = ending.startswith(b"0") and not ending.endswith(b"more")
    if is_good:
        assert (collector.status, collector.body, collector.end) == (200, b"".join(chunks), "ended")
    elif ending == b"zz\r\n":
        assert collector.end == "failed"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(CHUNKS, CUTS, st.sampled_from([HEAD, HEAD.replace(b"200 OK", b"400 No")])), max_size=4))
def test_fuzz_each_of_several_answers_of_a_connection_is_read_as_the_first_would_be(answers):
    connection = asked(Collector())
    for number, (chunks, cuts, head) in enumerate(answers):
        collector = Collector()
        if number:
            connection.ask(b"", collector)
        else:
            connection._reader = collector
        for piece in pieces_of(head + b"".join(map(chunked, chunks)) + b"0\r\n\r\n", cuts):
            connection.data_received(piece)
        assert (collector.status, collector.body, collector.end) == (int(head[9:12]), b"".join(chunks), "ended")


@given(CHUNKS, CUTS)
def test_fuzz_an_answer_without_chunks_is_not_taken_for_one(chunks, cuts):
    body = b"".join(chunked(piece) for piece in chunks)
    collector = Collector()
    connection = asked(collector)

    for piece in pieces_of(b"HTTP/1.1 200 OK\r\nx: chunked\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body), cuts):
        connection.data_received(piece)

    assert (collector.body, collector.end) == (body, "ended")
