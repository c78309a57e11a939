from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.gateway.batches.multipart import MAX_VALUE_BYTES, FormReader
from workers.gateway.errors import GatewayError
from workers.gateway.payload.forms import MAX_PARTS

pytestmark = pytest.mark.unit

TYPE = b"multipart/form-data; boundary=xx"


def form(*parts):
    body = b"".join(b'--xx\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n' % part for part in parts)
    return body + b"--xx--\r\n"


def file(content, name=b"in.jsonl"):
    return b"file", b'; filename="%b"' % name, content


PURPOSE = (b"purpose", b"", b"batch")


def read(*pieces):
    reader = FormReader(TYPE, large="file")
    return reader, b"".join(part for piece in pieces for part in reader.feed(piece))


# What looks like a delimiter and is none.
CONTENT = st.lists(st.sampled_from([b"\r", b"\n", b"--xx", b"\r\n--x", b"--", b"a", b"\r\n"]), max_size=12).map(
    b"".join
)


@given(CONTENT, st.lists(st.integers(0, 400), max_size=6))
def test_any_division_of_the_bytes_gives_the_same_content(content, cuts):
    if b"\r\n--xx" in b"\r\n" + content:
        return
    body = b"a preamble\r\n" + form(PURPOSE, file(content), (b"after", b"", b"1"))
    at = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    reader, found = read(*[body[start:end] for start, end in pairwise(at)])
    assert found == content
    assert reader.values == {"purpose": "batch", "after": "1"}
    assert (reader.filename, reader.is_over) == ("in.jsonl", True)


def test_a_large_part_is_handed_on_and_not_kept():
    reader = FormReader(TYPE, large="file")
    reader.feed(form(file(b"x" * 10)).partition(b"x" * 10)[0])
    handed_on = sum(len(part) for _ in range(100) for part in reader.feed(b"y" * 1000))
    assert handed_on >= 100_000 - 10
    assert len(reader._held) < 10


@pytest.mark.parametrize(
    "body",
    [
        form((b"purpose", b"", b"x" * (MAX_VALUE_BYTES + 1))),
        form(file(b"a"), file(b"b")),
        form(*[(b"p%d" % number, b"", b"") for number in range(MAX_PARTS + 1)]),
        b"--xx\r\n" + b"X-Long: " + b"x" * 8000,
    ],
    ids=["a long field", "two files", "many parts", "a long head"],
)
def test_what_could_grow_is_refused(body):
    with pytest.raises(GatewayError) as refusal:
        read(body)
    assert (refusal.value.status, refusal.value.code) == (400, "invalid_form")


def test_a_form_that_is_cut_short_is_not_over():
    for body in (b"", form(PURPOSE, file(b"content"))[:-6], b"--xx"):
        assert not read(body)[0].is_over


@pytest.mark.parametrize("content_type", [b"", b"application/json", b"multipart/form-data"])
def test_what_is_no_form_is_refused(content_type):
    with pytest.raises(GatewayError):
        FormReader(content_type, large="file")
