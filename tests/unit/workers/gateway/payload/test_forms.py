import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.gateway.errors import GatewayError
from workers.gateway.payload.forms import MAX_PARTS, peek_form, with_form_model
from workers.gateway.payload.peeks import end_user_of, wants_stream

pytestmark = pytest.mark.unit

TYPE = b"multipart/form-data; boundary=XyZ"


def part(name: str, value: bytes, extra: bytes = b"") -> bytes:
    return b'--XyZ\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n' % (name.encode(), extra, value)


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--XyZ--\r\n"


SOUND = part("file", b"RIFF\x00\r\n\r\n--XY\xff" * 50, b'; filename="a.wav"\r\nContent-Type: audio/wav')


def test_the_model_is_found_before_or_after_the_file():
    assert peek_form(form(part("model", b"whisper"), SOUND), TYPE).model == "whisper"
    assert peek_form(form(SOUND, part("model", b"whisper")), TYPE).model == "whisper"


def test_other_fields_that_matter_are_read():
    found = peek_form(form(part("model", b"m"), part("stream", b"true"), part("user", b"u"), SOUND), TYPE)
    assert wants_stream(found)
    assert end_user_of(found) == "u"


def test_a_quoted_boundary_and_a_preamble_are_understood():
    body = b"a preamble\r\n" + form(part("model", b"m"))
    assert peek_form(body, b'Multipart/Form-Data; charset=x; boundary="XyZ"').model == "m"


def test_only_the_model_is_changed():
    body = form(SOUND, part("model", b"public"), part("language", b"de"))
    assert with_form_model(body, TYPE, "inner") == body.replace(b"public", b"inner")


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (form(SOUND), TYPE, "missing_model"),
        (form(part("model", b"")), TYPE, "missing_model"),
        (form(part("model", b"x" * 5000)), TYPE, "missing_model"),
        (b"", TYPE, "missing_model"),
        (b"--XyZ", TYPE, "missing_model"),
        (part("model", b"m"), TYPE, "missing_model"),
        (b'{"model":"m"}', b"application/json", "invalid_form"),
        (form(part("model", b"m")), b"multipart/form-data", "invalid_form"),
        (form(part("model", b"a"), part("model", b"b")), TYPE, "invalid_form"),
        (form(*[part("x", b"") for _ in range(MAX_PARTS + 1)]), TYPE, "invalid_form"),
    ],
    ids=range(10),
)
def test_a_form_without_one_model_is_refused(body, content_type, code):
    with pytest.raises(GatewayError) as refusal:
        peek_form(body, content_type)
    assert (refusal.value.status, refusal.value.code) == (400, code)


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_break_it(noise, is_in_form):
    body = form(part("model", b"m"), part("noise", noise)) if is_in_form else b"--XyZ" + noise
    with contextlib.suppress(GatewayError):
        assert isinstance(peek_form(body, TYPE).model, str)
