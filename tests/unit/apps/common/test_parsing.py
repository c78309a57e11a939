from io import BytesIO
from typing import Any

import pytest
from django.http import QueryDict
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.serializers import CharField, ListField, Serializer

from apps.common.parsing import BIGGEST_BODY_BYTES, StrictJSONParser, TooBigError, parsed

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
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b"[" * 65 + b"]" * 65,
        b'{"name": "a", "name": "b"}',
        b'{"labels": [{"a": 1, "b": 2, "a": 1}]}',
    ],
)
def test_what_postgres_or_a_gateway_could_not_take_is_refused(body):
    with pytest.raises(ParseError):
        StrictJSONParser().parse(BytesIO(body))


def test_a_body_too_big_is_not_read_to_its_end():
    body = BytesIO(b" " * (BIGGEST_BODY_BYTES + 100))
    with pytest.raises(TooBigError):
        StrictJSONParser().parse(body)
    assert body.read()


def test_what_is_nested_as_deep_as_is_allowed_is_read():
    assert StrictJSONParser().parse(BytesIO(b"[" * 64 + b"]" * 64))


def test_plain_json_is_read():
    assert StrictJSONParser().parse(BytesIO('{"a": ["ü", 1, null]}'.encode())) == {"a": ["ü", 1, None]}


class _Key(Serializer[Any]):
    name = CharField()
    networks = ListField(child=CharField(), required=False)


def test_a_field_that_does_not_exist_is_refused_by_name():
    with pytest.raises(ValidationError) as refused:
        parsed(_Key, {"name": "k", "allowed_networks": ["10.0.0.0/8"]})
    assert list(refused.value.detail) == ["allowed_networks"]
    assert parsed(_Key, {"name": "k"}) == {"name": "k"}


def test_a_misspelt_word_in_an_address_is_refused_and_what_pages_a_list_is_not():
    with pytest.raises(ValidationError) as refused:
        parsed(_Key, QueryDict("name=k&nmae=k"))
    assert list(refused.value.detail) == ["nmae"]
    assert parsed(_Key, QueryDict("name=k&page_size=5&cursor=x&dry_run=1"))["name"] == "k"
