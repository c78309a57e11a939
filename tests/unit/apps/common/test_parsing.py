from io import BytesIO

import pytest
from rest_framework.exceptions import ParseError

from apps.common.parsing import StrictJSONParser

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"NaN",
        b"1e999",
        b'"\\ud800"',
        b'"\\u0000"',
        b'{"a": ["\\u0000"]}',
        b'{"\\u0000": 1}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_what_postgres_or_a_gateway_could_not_take_is_refused(body):
    with pytest.raises(ParseError):
        StrictJSONParser().parse(BytesIO(body))


def test_plain_json_is_read():
    assert StrictJSONParser().parse(BytesIO('{"a": ["ü", 1, null]}'.encode())) == {"a": ["ü", 1, None]}
